"""Workers in turns: segments, exploration, and what they push."""

import functools

import dm_env
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.a3c import links
from impala_tf.a3c import store as store_lib
from impala_tf.a3c import worker as worker_lib
from impala_tf.agents import a3c_agents
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import impala
from impala_tf.core import learner as learner_lib
from impala_tf.envs import catch
from impala_tf.maths import distributions
from impala_tf.optimizers import hyperparameters
from tests.fixtures import parameters

_NUM_WORKERS = 2


class _Environment(catch.CatchEnvironment):
  """Catch that a test sees, and may change.

  `on_choice` hears before each step whether it is the first of a game.
  `on_step` gets the number of steps so far, and may change the time step.
  """

  def __init__(self, seed, on_choice, on_step):
    super().__init__(1, seed)
    self._on_choice = on_choice
    self._on_step = on_step
    self._num_steps = 0
    self._begins = True

  def step(self, actions):
    self._on_choice(self._begins)
    timestep = super().step(actions)
    self._num_steps += 1
    self._begins = timestep.step_type[0] == dm_env.StepType.FIRST
    self._on_step(self._num_steps, timestep)
    return timestep


class _Process:
  """Workers whose gradient of each parameter is 1.

  Momenta are halved, so that they are 0.5 after the first step of a worker and
  0.75 after its second.

  Attributes:
    unrolls: copies of the segments that were learned from.
    targets: first parameter of the target agent at each of them.
    choices: of each action of a value method, which worker chose it, whether as
      the first of an episode, and by which epsilon.
  """

  def __init__(self, algorithm='a3c', make_agent=None, annealed=True,
               max_norm=None, optimizer='momentum_sgd',
               on_step=lambda num_steps, timestep: None):
    tf.config.run_functions_eagerly(True)
    self.unrolls, self.targets, self.choices = [], [], []
    self._is_valued = algorithm != 'a3c'
    make_agent = make_agent or (
        a3c_agents.QAgent if self._is_valued else agent_lib.Agent)
    config = config_lib.Config(
        experiment=config_lib.ExperimentConfig(
            algorithm=algorithm, total_frames=1000),
        environment=config_lib.EnvironmentConfig(level='catch'),
        agent=config_lib.AgentConfig(torso='mlp', hidden_size=4),
        impala=config_lib.ImpalaConfig(correction='none'),
        optimizer=config_lib.OptimizerConfig(
            learning_rate=0.01, annealed=annealed, decay=0.5, epsilon=0.25,
            max_gradient_norm=max_norm),
        asynchronous=config_lib.AsyncConfig(
            optimizer=optimizer, num_workers=_NUM_WORKERS,
            max_segment_steps=5, epsilon_anneal_frames=100,
            target_interval_frames=12))
    environments = [_Environment(i, self._note_choice, on_step)
                    for i in range(_NUM_WORKERS)]
    agents = []
    for _ in range(2):
      agents.append(make_agent(distributions.Categorical(3), config.agent))
      agents[-1].build(environments[0].observation_spec())
    self.agent, self.target = agents
    self.store = store_lib.make(
        parameters.flatten(self.agent).size, _NUM_WORKERS)
    self.store.parameters[:] = parameters.flatten(self.agent)
    self.workers = [
        worker_lib.Worker(f'worker {i}', i, environment, (), seed=i)
        for i, environment in enumerate(environments)]
    self._process = worker_lib.WorkersInTurn(
        config, links.MemoryLink(config, self.store, self.agent,
                                 self.target if self._is_valued else None),
        self.agent, self.workers, self._gradients, seed=0)

  def run(self, num_segments=1):
    for _ in range(num_segments):
      self._process.run_segment()
    return self

  def records(self):
    return self.store.new_records(0)[0]

  def outputs(self):
    """Returns what the agent makes of the last segment."""
    unroll = self.unrolls[-1]
    return self.agent.unroll(
        tf.nest.map_structure(tf.constant, unroll.env_outputs),
        tf.constant(unroll.agent_outputs.action), ())

  def _note_choice(self, begins):
    if self._is_valued:
      self.choices.append((len(self.unrolls) % _NUM_WORKERS, begins,
                           round(float(self.agent.epsilon), 5)))

  def _gradients(self, unroll):
    self.unrolls.append(tf.nest.map_structure(lambda t: t.numpy(), unroll))
    self.targets.append(parameters.flatten(self.target)[0])
    return learner_lib.Gradients(
        [tf.ones_like(v) for v in self.agent.trainable_variables], (),
        {'rho/mean': tf.constant(1.)})


@pytest.fixture(autouse=True)
def _graphs_again():
  yield
  tf.config.run_functions_eagerly(False)


def test_policy_chooses_each_action_of_a_segment_by_its_own_parameters():
  def learn_elsewhere(num_steps, timestep):
    del num_steps, timestep
    made.store.parameters += 0.02
    made.store.set_counts(0, made.store.counts.num_updates + 1)

  made = _Process(on_step=learn_elsewhere)
  for _ in range(6):
    made.run()
    length = 5 if len(made.unrolls) in (1, 2, 5, 6) else 4
    np.testing.assert_allclose(
        made.outputs().policy_logits[:length],
        made.unrolls[-1].agent_outputs.policy_logits[:length], atol=1e-5)
  # An update was made elsewhere at each of a segment's steps.
  assert [record['lag'] for record in made.records()] == [5, 5, 4, 4, 5, 5]


def test_lost_life_ends_a_segment_and_no_game():
  def lose_life(num_steps, timestep):
    if num_steps == 3:
      timestep.discount[:] = 0

  made = _Process(on_step=lose_life).run(5)
  # Both workers play to the lost life, then t_max steps, then one of them the
  # step that is left of 9.
  lengths = [3, 3, 5, 5, 1]
  for unroll, length in zip(made.unrolls, lengths):
    assert (unroll.env_outputs.step_type[1:length] == dm_env.StepType.MID).all()
  assert made.store.counts.num_frames == sum(lengths)
  first = made.unrolls[0].env_outputs
  assert first.step_type[3] == dm_env.StepType.MID
  assert first.discount[:4, 0].tolist() == [1, 1, 1, 0]
  assert [r.get('episode_steps') for r in made.records()] == [None] * 4 + [9]


def test_segment_of_which_a_time_limit_leaves_nothing_has_no_means():
  def reset_after_limit(num_steps, timestep):
    if num_steps in (5, 6):
      timestep.step_type[:] = int(
          dm_env.StepType.LAST if num_steps == 5 else dm_env.StepType.FIRST)

  made = _Process(on_step=reset_after_limit).run(5)
  assert made.store.counts.num_frames == 5 + 5 + 1 + 1 + 3
  assert ['rho/mean' in record['metrics'] for record in made.records()] == [
      True, True, False, False, True]
  # Once a game, though the limit and the reset are a row each.
  assert ['episode_steps' in record for record in made.records()] == [
      False, False, True, True, True]


def test_sarsa_takes_the_action_of_which_the_target_was():
  made = _Process('one_step_sarsa').run(8)
  for worker in range(_NUM_WORKERS):
    segments = made.unrolls[worker::_NUM_WORKERS]
    for i, (unroll, later) in enumerate(zip(segments, segments[1:])):
      length = (5, 4)[i % 2]
      np.testing.assert_array_equal(
          unroll.env_outputs.observation[length],
          later.env_outputs.observation[0])
      assert unroll.agent_outputs.action[length] == (
          later.agent_outputs.action[0])


class _Greedy(a3c_agents.QAgent):
  """An agent that never explores."""

  def _choose(self, logits, seed):
    return self.distribution.mode(logits)


def test_value_method_without_a_target_of_it_chooses_a_first_action_anew():
  made = _Process('n_step_q', _Greedy)
  rng = np.random.default_rng(0)
  for _ in range(6):
    # Another process has learned.
    made.store.parameters[:] = rng.normal(size=made.store.parameters.size)
    made.run()
    assert np.argmax(made.outputs().policy_logits[0, 0]) == (
        made.unrolls[-1].agent_outputs.action[0, 0])


def test_steps_are_pushed_into_the_slot_of_their_worker():
  made = _Process().run(3)
  assert (made.store.slots[0] == 0.75).all()
  assert (made.store.slots[1] == 0.5).all()
  rates = [0.01 * (1 - frames / 1000) for frames in (5, 10, 14)]
  # The agent has what was there before the third.
  np.testing.assert_allclose(
      made.store.parameters, parameters.flatten(made.agent) - 0.75 * rates[2],
      rtol=1e-4, atol=1e-6)
  assert made.store.counts == store_lib.Counts(14, 3, 1)
  records = made.records()
  assert [r['metrics']['learning_rate'] for r in records] == pytest.approx(
      rates)
  assert [r.get('episode_steps') for r in records] == [None, None, 9]
  assert [r['worker'] for r in records] == ['worker 0', 'worker 1', 'worker 0']


def test_target_agent_has_the_parameters_of_the_last_interval():
  made = _Process('n_step_q')
  made.store.target_parameters[:] = 7
  made.run(3)
  # The third segment has crossed 12 frames. Its own step is in the copy, and so
  # is what others have done since its parameters were pulled.
  assert made.targets == [7, 7, 7]
  shared = made.store.parameters.copy()
  assert (shared != parameters.flatten(made.agent)).all()
  np.testing.assert_array_equal(made.store.target_parameters, shared)
  made.run()
  assert made.targets[3] == shared[0] != made.store.parameters[0]


def test_epsilon_falls_to_a_value_that_each_episode_draws():
  made = _Process('n_step_q').run(80)
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
    made.run()
  assert [record['metrics']['learning_rate'] for record in made.records()] == [
      pytest.approx(.0075), 0, 0, 0]


def test_gradient_is_clipped_and_its_norm_is_that_before():
  made = _Process(max_norm=0.5).run()
  # Momenta are halved, so that they are half of a gradient that has this norm.
  assert np.linalg.norm(made.store.slots[0]) == pytest.approx(0.5 / 2)
  assert made.records()[0]['metrics']['gradient_norm'] == pytest.approx(
      made.store.parameters.size**.5)


def test_epsilon_and_a_rate_that_is_not_annealed_are_those_of_the_config():
  made = _Process(optimizer='shared_rmsprop', annealed=False).run()
  np.testing.assert_allclose(
      made.store.parameters - parameters.flatten(made.agent),
      -0.01 / (0.5 + 0.25)**.5, rtol=1e-3)


def test_workers_draw_final_epsilons_by_their_seeds():
  workers = [worker_lib.Worker('', 0, catch.CatchEnvironment(1, 0), (), seed)
             for seed in range(8)]
  assert {w.final_epsilon for w in workers} == {0.1, 0.01, 0.5}


def test_scaled_rewards_are_learned_and_the_games_own_are_logged(monkeypatch):
  monkeypatch.setattr(_Environment, 'reward_scale', 0.5)
  made = _Process().run(3)
  assert abs(made.unrolls[2].env_outputs.reward[4, 0]) == 0.5
  assert abs(made.records()[2]['episode_return']) == 1


def test_frames_are_those_of_the_emulator_which_repeats_actions():
  made = _Process()
  for worker in made.workers:
    worker.environment.frames_per_step = 4
  made.run(3)
  assert made.store.counts.num_frames == 4 * (5 + 5 + 4)


# Segments are unrolls of one length; padding is not learned from.

_FIRST, _MID = dm_env.StepType.FIRST, dm_env.StepType.MID


def _row(number, step_type=_MID, discount=1.):
  env_output = types.EnvOutput(
      step_type=np.array([step_type], np.uint8),
      reward=np.array([number], np.float32),
      discount=np.array([discount], np.float32),
      observation=np.array([[number, -number]], np.float32),
      episode_return=np.zeros(1, np.float32),
      episode_steps=np.zeros(1, np.int32))
  return env_output, types.AgentOutput(
      np.array([number % 3], np.int32),
      np.array([[0.1, 0.2, number / 9]], np.float32))


def _fill(buffer, num_steps, last_discount=1., core_state=()):
  buffer.begin(core_state)
  buffer.record(*_row(0, _FIRST))
  for t in range(1, num_steps):
    buffer.record(*_row(t))
  # If nothing is bootstrapped, a life was lost.
  buffer.record(*_row(num_steps, _MID, last_discount))


def test_short_segment_is_padded_with_what_is_masked():
  buffer = worker_lib.SegmentBuffer(5)
  _fill(buffer, 5)
  buffer.unroll()
  _fill(buffer, 2, last_discount=0.)  # Leftovers of the first lie behind it.
  assert buffer.num_steps == 2
  env_outputs = buffer.unroll().env_outputs
  np.testing.assert_array_equal(
      env_outputs.step_type[:, 0], [_FIRST, _MID, _MID, _FIRST, _FIRST, _FIRST])
  np.testing.assert_array_equal(env_outputs.discount[:, 0], [1, 1, 0, 1, 1, 1])
  np.testing.assert_array_equal(env_outputs.reward[:, 0], [0, 1, 2, 0, 0, 0])
  assert env_outputs.observation.shape == (6, 1, 2)


@pytest.mark.parametrize('num_steps, length', [
    (1, 16), (16, 16), (17, 32), (40, 64), (3, 16)])
def test_whole_episode_has_the_length_of_a_power_of_two(num_steps, length):
  buffer = worker_lib.SegmentBuffer(None)
  for _ in range(2):
    _fill(buffer, num_steps, last_discount=0.)
    rewards = buffer.unroll().env_outputs.reward.numpy()[:, 0]
    assert len(rewards) == length + 1
    np.testing.assert_array_equal(rewards[:num_steps + 1], range(num_steps + 1))
    assert not rewards[num_steps + 1:].any()


@pytest.mark.parametrize('use_lstm', [False, True])
def test_padding_changes_no_gradient_and_no_metric(use_lstm):
  """Compares two steps alone with two steps padded to five."""
  config = config_lib.Config(
      agent=config_lib.AgentConfig(
          torso='mlp', hidden_size=4, use_lstm=use_lstm, lstm_size=3),
      impala=config_lib.ImpalaConfig(correction='none'))
  agent = agent_lib.Agent(distributions.Categorical(3), config.agent)
  tf.random.set_seed(1)
  agent.build(tf.TensorSpec([2], tf.float32))
  loss = functools.partial(
      impala.loss, config=config,
      hyperparameters=hyperparameters.Hyperparameters(config).present())
  gradients = []
  for max_steps in (2, 5):
    buffer = worker_lib.SegmentBuffer(max_steps)
    _fill(buffer, 2, 0., agent.initial_state(1))
    gradients.append(
        learner_lib.compute_gradients(agent, loss, buffer.unroll()))
  for short, padded in zip(*(g.values for g in gradients)):
    np.testing.assert_allclose(short, padded, rtol=1e-5, atol=1e-6)
  assert any(np.any(g.numpy()) for g in gradients[0].values)
  short, padded = (g.metrics for g in gradients)
  assert short.keys() == padded.keys() > {'entropy', 'explained_variance'}
  for name, value in short.items():
    np.testing.assert_allclose(
        padded[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
