"""Workers in turns: segments, exploration, and what they push."""

import functools

import dm_env
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.a3c import links
from impala_tf.a3c import store as store_lib
from impala_tf.a3c import worker as worker_lib
from impala_tf.agents import a3c_agents
from impala_tf.agents import agent as agent_lib
from impala_tf.core import learner as learner_lib
from impala_tf.envs import catch
from impala_tf.maths import distributions

_NUM_WORKERS = 2
_SETTINGS = links.Settings(
    learning_rate=0.01, annealed=True, total_frames=1000,
    target_interval_frames=12)


class _Process:
  """Workers whose gradient of each parameter is 1.

  Attributes:
    unrolls: copies of the segments that were learned from.
    targets: first parameter of the target agent at each of them.
    choices: of each action of a value method, which worker chose it, whether as
      the first of an episode, and by which epsilon.
  """

  def __init__(self, make_agent=agent_lib.Agent, settings=_SETTINGS,
               keeps_last_action=False):
    tf.config.run_functions_eagerly(True)
    self.unrolls, self.targets, self.choices = [], [], []
    agents = []
    for _ in range(2):
      agents.append(make_agent(
          distributions.Categorical(3),
          config_lib.AgentConfig(torso='mlp', hidden_size=4)))
      agents[-1].build(catch.CatchEnvironment(1, 0).observation_spec())
    self.agent, self.target = agents
    self.is_valued = make_agent is a3c_agents.QAgent
    self.store = store_lib.make(
        worker_lib.flatten(self.agent).size, _NUM_WORKERS)
    self.store.parameters[:] = worker_lib.flatten(self.agent)
    link = links.MemoryLink(
        self.store, self.agent,
        functools.partial(links.apply, self.store, self._update, settings),
        self.target if self.is_valued else None)
    self.process = worker_lib.WorkersInTurn(
        link, self.agent,
        [worker_lib.Worker(
            f'worker {i}', i, catch.CatchEnvironment(1, i), (), seed=i)
         for i in range(_NUM_WORKERS)],
        self._gradients, worker_lib.Settings(
            max_gradient_norm=None, max_segment_steps=5,
            epsilon_anneal_frames=100, explores=self.is_valued,
            keeps_last_action=keeps_last_action), seed=0)
    self._act, self.process._policy.act = self.process._policy.act, self._note

  def _note(self, env_output):
    if self.is_valued:
      self.choices.append((
          len(self.unrolls) % _NUM_WORKERS,
          env_output.step_type[0] == dm_env.StepType.FIRST,
          round(float(self.agent.epsilon), 5)))
    return self._act(env_output)

  def _gradients(self, unroll):
    self.unrolls.append(tf.nest.map_structure(lambda t: t.numpy(), unroll))
    self.targets.append(worker_lib.flatten(self.target)[0])
    return learner_lib.Gradients(
        [tf.ones_like(v) for v in self.agent.trainable_variables], (),
        {'rho/mean': tf.constant(1.)})

  @staticmethod
  def _update(parameters, slot, gradient, learning_rate):
    slot += gradient
    parameters -= learning_rate * gradient


@pytest.fixture(autouse=True)
def _graphs_again():
  yield
  tf.config.run_functions_eagerly(False)


def _run(num_segments, **kwargs):
  made = _Process(**kwargs)
  for _ in range(num_segments):
    made.process.run_segment()
  return made


def test_policy_chooses_each_action_of_a_segment_by_its_own_parameters(
    monkeypatch):
  made = _Process()
  step = worker_lib.Worker.step

  def step_while_others_learn(self):
    made.store.parameters += 0.02  # Another process has learned.
    step(self)

  monkeypatch.setattr(worker_lib.Worker, 'step', step_while_others_learn)
  for _ in range(6):
    made.process.run_segment()
    unroll = made.unrolls[-1]
    outputs = made.agent.unroll(
        tf.nest.map_structure(tf.constant, unroll.env_outputs),
        tf.constant(unroll.agent_outputs.action), ())
    length = 5 if len(made.unrolls) in (1, 2, 5, 6) else 4
    np.testing.assert_allclose(
        outputs.policy_logits[:length],
        unroll.agent_outputs.policy_logits[:length], atol=1e-5)


def test_lost_life_ends_a_segment_and_no_game(monkeypatch):
  step = catch.CatchEnvironment._step

  def lose_life(self, actions):
    timestep = step(self, actions)
    if self._row == 3:
      timestep.discount[:] = 0
    return timestep

  monkeypatch.setattr(catch.CatchEnvironment, '_step', lose_life)
  made = _run(5)
  # Both workers play to the lost life, then t_max steps, then one of them the
  # step that is left of 9.
  records = made.store.new_records(0)[0]
  lengths = [3, 3, 5, 5, 1]
  for unroll, length in zip(made.unrolls, lengths):
    assert (unroll.env_outputs.step_type[1:length] == dm_env.StepType.MID).all()
  assert made.store.counts.num_frames == sum(lengths)
  first = made.unrolls[0].env_outputs
  assert first.step_type[3] == dm_env.StepType.MID
  assert first.discount[:4, 0].tolist() == [1, 1, 1, 0]
  assert [r.get('episode_steps') for r in records] == [None] * 4 + [9]


def test_segment_of_which_a_time_limit_leaves_nothing_has_no_means(monkeypatch):
  step, num_steps = worker_lib.Worker.step, {}

  def step_to_limit(self):
    step(self)
    num_steps[self] = num_steps.get(self, 0) + 1
    if num_steps[self] == 6:
      self.env_output.step_type[:] = int(dm_env.StepType.FIRST)

  monkeypatch.setattr(worker_lib.Worker, 'step', step_to_limit)
  made = _run(5)
  assert made.store.counts.num_frames == 5 + 5 + 1 + 1 + 3
  assert ['rho/mean' in record['metrics'] for record in
          made.store.new_records(0)[0]] == [True, True, False, False, True]


def test_sarsa_takes_the_action_of_which_the_target_was():
  made = _run(8, make_agent=a3c_agents.QAgent, keeps_last_action=True)
  for worker in range(_NUM_WORKERS):
    segments = made.unrolls[worker::_NUM_WORKERS]
    for i, (unroll, later) in enumerate(zip(segments, segments[1:])):
      length = (5, 4)[i % 2]
      np.testing.assert_array_equal(
          unroll.env_outputs.observation[length],
          later.env_outputs.observation[0])
      assert unroll.agent_outputs.action[length] == (
          later.agent_outputs.action[0])


def test_value_method_without_a_target_of_it_chooses_a_first_action_anew():
  made = _Process(make_agent=a3c_agents.QAgent)
  made.agent.epsilon.assign(0.)
  made.process._explore = lambda *unused: None
  rng = np.random.default_rng(0)
  for _ in range(6):
    # Another process has learned.
    made.store.parameters[:] = rng.normal(size=made.store.parameters.size)
    made.process.run_segment()
    unroll = made.unrolls[-1]
    values = made.agent.unroll(
        tf.nest.map_structure(tf.constant, unroll.env_outputs),
        tf.constant(unroll.agent_outputs.action), ()).policy_logits
    assert np.argmax(values[0, 0]) == unroll.agent_outputs.action[0, 0]


def test_steps_are_pushed_into_the_slot_of_their_worker():
  made = _run(3)
  assert (made.store.slots[0] == 2).all() and (made.store.slots[1] == 1).all()
  rates = [0.01 * (1 - frames / 1000) for frames in (5, 10, 14)]
  # The agent has what was there before the third.
  np.testing.assert_allclose(
      made.store.parameters, worker_lib.flatten(made.agent) - rates[2],
      rtol=1e-4, atol=1e-6)
  assert made.store.counts == store_lib.Counts(14, 3, 1)
  records = made.store.new_records(0)[0]
  assert [r['metrics']['learning_rate'] for r in records] == pytest.approx(
      rates)
  assert [r.get('episode_steps') for r in records] == [None, None, 9]
  assert [r['worker'] for r in records] == ['worker 0', 'worker 1', 'worker 0']


def test_target_agent_has_the_parameters_of_the_last_interval():
  made = _Process(make_agent=a3c_agents.QAgent)
  made.store.target_parameters[:] = 7
  for _ in range(3):
    made.process.run_segment()
  # The third segment has crossed 12 frames. Its own step is in the copy, and so
  # is what others have done since its parameters were pulled.
  assert made.targets == [7, 7, 7]
  shared = made.store.parameters.copy()
  assert (shared != worker_lib.flatten(made.agent)).all()
  np.testing.assert_array_equal(made.store.target_parameters, shared)
  made.process.run_segment()
  assert made.targets[3] == shared[0] != made.store.parameters[0]


def test_epsilon_falls_to_a_value_that_each_episode_draws():
  made = _run(80, make_agent=a3c_agents.QAgent)
  # Segments of 5, 5 and 4 steps, each begun by frames 0, 5, 10.
  expected = [0] * 5 + [5] * 5 + [10] * 4
  for (_, _, epsilon), frames in zip(made.choices, expected):
    assert min(abs(epsilon - (1 - frames / 100 * (1 - final)))
               for final in (0.1, 0.01, 0.5)) < 1e-4
  drawn = set()
  for worker in range(_NUM_WORKERS):
    choices = [choice[1:] for choice in made.choices if choice[0] == worker]
    starts = [i for i, (is_first, _) in enumerate(choices) if is_first]
    # After 100 frames of both it is final.
    for start, end in list(zip(starts, starts[1:]))[6:]:
      epsilons = {epsilon for _, epsilon in choices[start:end]}
      assert len(epsilons) == 1
      drawn |= epsilons
  assert drawn == {0.1, 0.01, 0.5}


def test_learning_rate_falls_to_zero_with_the_frames_of_all_and_no_further():
  made = _Process()
  # The update of the first segment is that of frame 250 of 1000.
  for frames in (245, 995, 1000, 2000):
    made.store.set_counts(frames, 0)
    made.process.run_segment()
  assert [record['metrics']['learning_rate'] for record in
          made.store.new_records(0)[0]] == [pytest.approx(.0075), 0, 0, 0]


def test_frames_are_those_of_the_emulator_which_repeats_actions():
  made = _Process()
  for worker in made.process._workers:
    worker.environment.frames_per_step = 4
  for _ in range(3):
    made.process.run_segment()
  assert made.store.counts.num_frames == 4 * (5 + 5 + 4)


def test_learning_rate_stays_where_it_is_not_annealed():
  made = _run(2, settings=_SETTINGS._replace(annealed=False))
  for record in made.store.new_records(0)[0]:
    assert record['metrics']['learning_rate'] == 0.01
