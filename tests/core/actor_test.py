"""The actor, between an environment and a writer that say what they saw."""

import functools

import dm_env
from dm_env import specs
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.core import actor as actor_lib
from impala_tf.envs import environment
from impala_tf.maths import distributions
from impala_tf.maths import frame_stacks
from tests.fixtures import worker_environments

T, E, A, STACK, HEIGHT, WIDTH, L = 5, 2, 4, 3, 2, 3, 2
NUM_UNROLLS = 4
FIRST, MID = 0, 1
# Rows of each environment that begin an episode. Some are inside an unroll, one
# is its last row, which is the first of the next.
STARTS = ((0, 3, 4, 2 * T), (0, 12))
LIFE_LOSSES = ((8,), (2, T))
TRUNCATIONS = ((4,), ())


class FakeEnvironment(environment.BatchedEnvironment):
  """Environments whose frames hold their own numbers.

  Returns the same arrays every time, as the interface allows it to.
  """

  def __init__(self, frame_stack, log):
    shape, dtype = (HEIGHT, WIDTH), np.float32
    if frame_stack > 1:
      shape, dtype = shape + (frame_stack,), np.uint8
    super().__init__('fake', E, environment.discrete(A),
                     specs.Array(shape, dtype), 4, frame_stack, L)
    self.level_index = np.array([7, 4], np.int32)
    self._log = log
    self._time = -1
    self._timestep = dm_env.TimeStep(
        np.zeros(E, np.uint8), np.zeros(E, np.float32),
        np.zeros(E, np.float32), np.zeros((E,) + shape, dtype))
    self.rows, self.actions = [], []

  def reset(self):
    return self._next()

  def _step(self, actions):
    self._log.append('step')
    self.actions.append(actions.copy())
    return self._next()

  def _next(self):
    self._time += 1
    t, row = self._time, self._timestep
    for e in range(E):
      is_first = t in STARTS[e]
      terminal = is_first and t > 0 and t not in TRUNCATIONS[e]
      row.step_type[e] = FIRST if is_first else MID
      row.discount[e] = 0 if terminal or t in LIFE_LOSSES[e] else 1
      row.reward[e] = 0 if t == 0 else 10 * t * (-1)**e + 0.5
      self.instruction[e] = e + 1, t + 1
      frame = np.zeros([HEIGHT, WIDTH])
      frame[0, 0], frame[1, 2] = e + 1, t + 1
      worker_environments.show(row, e, frame, self.frame_stack)
    self.rows.append(tf.nest.map_structure(np.copy, row))
    return row

  def render(self):
    raise NotImplementedError


class FakeWriter:
  """A writer that keeps copies, as the protocol says."""

  def __init__(self, log):
    self._log = log
    self.unrolls = []

  def write(self, unroll):
    self._log.append('write')
    assert unroll.row == len(self.unrolls) % E
    self.unrolls.append(tf.nest.map_structure(np.copy, unroll.unroll))

  def flush(self, max_pending=0):
    self._log.append(f'flush to {max_pending}')


class FakeFetcher:
  """A fetcher of other parameters and another version every time."""

  def __init__(self, agent, log):
    self._agent = agent
    self._log = log
    self._rng = np.random.default_rng(0)
    self.parameters = [self._snapshot()]  # Those before the first fetch too.

  def _snapshot(self):
    return [v.numpy() for v in self._agent.trainable_variables]

  def fetch(self):
    self._log.append('fetch')
    for v in self._agent.trainable_variables:
      v.assign_add(self._rng.normal(scale=0.1, size=v.shape))
    self.parameters.append(self._snapshot())
    return 100 + len(self.parameters) - 1


class Run:
  """Records of `NUM_UNROLLS` calls of `run_unroll`.

  Attributes:
    unrolls: unrolls that were written, [NUM_UNROLLS, E].
  """

  def __init__(self, frame_stack=STACK, use_lstm=True, acts_anew=False, seed=3):
    self.log = []
    self.acts_anew = acts_anew
    self.environment = FakeEnvironment(frame_stack, self.log)
    tf.random.set_seed(1)
    self.agent = agent_lib.Agent(
        distributions.Categorical(A), config.AgentConfig(
            torso='mlp', use_lstm=use_lstm, hidden_size=6, lstm_size=4,
            instruction_length=L))
    self.agent.build(self.environment.observation_spec())
    self.step = tf.function(self.agent.step)
    self.spec = types.unroll_spec(
        self.environment.observation_spec(), frame_stack,
        self.environment.action_spec(), A, self.agent.initial_state(1), T,
        self.environment.side_channel_specs()._asdict())
    writer = FakeWriter(self.log)
    self.fetcher = FakeFetcher(self.agent, self.log)
    actor = actor_lib.Actor(self.agent, self.environment, writer, self.fetcher,
                            self.spec, seed=seed, acts_anew=acts_anew)
    for _ in range(NUM_UNROLLS):
      actor.run_unroll()
    self.unrolls = np.empty([NUM_UNROLLS, E], object)
    for i, unroll in enumerate(writer.unrolls):
      self.unrolls[divmod(i, E)] = unroll

  def rows(self, k):
    """Returns the environment's rows of unroll k, [T+1, E]."""
    return dm_env.TimeStep(*(
        np.stack(x) for x in zip(*self.environment.rows[k * T:(k + 1) * T + 1])
    ))

  def batch(self, k):
    """Stacks the unrolls k of all environments, time-major."""
    unrolls = list(self.unrolls[k])

    def stack(axis):
      return lambda *x: np.stack(x, axis)

    parts = zip(*unrolls)
    return types.Unroll(*(
        tf.nest.map_structure(stack(axis), *part)
        for part, axis in zip(parts, (1, 1, 0, 0, 0))))


@pytest.fixture(name='make_run', scope='module')
def _make_run():
  """Makes runs that all tests share; none changes what they recorded."""
  return functools.lru_cache(None)(Run)


@pytest.fixture(name='run', scope='module')
def _run(make_run):
  return make_run(STACK, True)


@pytest.mark.parametrize('frame_stack', [1, STACK])
@pytest.mark.parametrize('use_lstm', [False, True])
def test_unrolls_agree_with_their_spec(make_run, frame_stack, use_lstm):
  run = make_run(frame_stack, use_lstm)
  steps = [T + 1]
  observation = [T + frame_stack, HEIGHT, WIDTH]
  for unroll in run.unrolls.flat:
    tf.nest.assert_same_structure(unroll, run.spec)
    for x, spec in zip(tf.nest.flatten(unroll), tf.nest.flatten(run.spec)):
      assert x.shape == spec.shape and x.dtype == spec.dtype.as_numpy_dtype
    assert list(unroll.env_outputs.observation.shape) == observation
    assert list(unroll.agent_outputs.policy_logits.shape) == steps + [A]
    assert (unroll.core_state == ()) != use_lstm


def test_rows_are_those_of_the_environment_with_raw_rewards(run):
  for k in range(NUM_UNROLLS):
    rows, env_outputs = run.rows(k), run.batch(k).env_outputs
    assert run.batch(k).level_index.tolist() == [7, 4]
    for t, instruction in enumerate(env_outputs.instruction):
      np.testing.assert_array_equal(instruction, _instruction(k * T + t))
    for name in 'step_type', 'reward', 'discount':
      np.testing.assert_array_equal(
          getattr(env_outputs, name), getattr(rows, name), err_msg=name)
  assert env_outputs.reward[-1].tolist() == [
      10 * NUM_UNROLLS * T + 0.5, -10 * NUM_UNROLLS * T + 0.5]


@pytest.mark.parametrize('acts_anew', [False, True])
def test_recorded_actions_are_those_the_environment_played(make_run, acts_anew):
  run = make_run(STACK, True, acts_anew)
  for k in range(NUM_UNROLLS):
    # That at x_T is the first of the next unroll, unless it is chosen anew.
    played = run.environment.actions[k * T:(k + 1) * T + (not acts_anew)]
    np.testing.assert_array_equal(
        run.batch(k).agent_outputs.action[:len(played)], played)
  assert len({a for x in run.environment.actions for a in x}) > 2


def test_another_seed_plays_other_actions(make_run):
  ours, theirs = (make_run(STACK, True, seed=seed).environment.actions
                  for seed in (3, 4))
  assert np.any(np.array(ours) != theirs)


def test_frames_travel_once_and_restack_to_those_of_the_environment(
    run, make_run):
  plain = make_run(1, True)  # Without a stack, they travel as they are.
  for k in range(NUM_UNROLLS):
    np.testing.assert_array_equal(plain.batch(k).env_outputs.observation,
                                  plain.rows(k).observation)
    unroll, rows = run.batch(k), run.rows(k)
    observation = unroll.env_outputs.observation
    # Their newest frames, behind the older ones of x_0.
    np.testing.assert_array_equal(observation[STACK - 1:],
                                  rows.observation[..., -1])
    restacked = frame_stacks.restack(tf.constant(observation),
                                      tf.constant(unroll.env_outputs.step_type))
    np.testing.assert_array_equal(restacked, rows.observation)


def _instruction(row):
  """Returns the instructions that the fake environments give at a row."""
  return np.array([[e + 1, row + 1] for e in range(E)], np.int32)


def _recompute(run, k):
  """Computes logits [T+1, E] of unroll k, and the core state before its x_T.

  The action at x_0 was chosen before the parameters were fetched, unless the
  actor acts anew.
  """
  unroll, rows = run.batch(k), run.rows(k)
  core_state = tf.nest.map_structure(tf.constant, unroll.core_state)
  logits = []
  for t in range(T + 1):
    is_old = t == 0 and not run.acts_anew
    parameters = run.fetcher.parameters[k if is_old else k + 1]
    for variable, value in zip(run.agent.trainable_variables, parameters):
      variable.assign(value)
    env_output = types.EnvOutput(
        tf.constant(rows.step_type[t]), tf.constant(rows.reward[t]), (),
        tf.constant(rows.observation[t]), (), (),
        tf.constant(_instruction(k * T + t)))
    before = core_state
    output, core_state = run.step(env_output, core_state, tf.constant([0, 0]))
    logits.append(output.policy_logits)
    # The seed would sample other actions than those on record.
    if core_state:
      core_state = core_state._replace(
          last_action=tf.constant(unroll.agent_outputs.action[t]))
  return np.array(logits), before


@pytest.mark.parametrize('frame_stack,use_lstm,acts_anew', [
    (STACK, True, False), (1, True, False), (STACK, False, False),
    (STACK, True, True), (1, False, True)])
def test_agent_outputs_were_computed_from_the_rows_beside_them(
    make_run, frame_stack, use_lstm, acts_anew):
  run = make_run(frame_stack, use_lstm, acts_anew)
  for k in range(NUM_UNROLLS):
    logits, _ = _recompute(run, k)
    recorded = run.batch(k).agent_outputs.policy_logits
    np.testing.assert_allclose(recorded, logits, rtol=1e-4, atol=1e-4)
    # Neighbours differ, so that no other row would have done.
    assert np.abs(np.diff(recorded, axis=0)).max(-1).min() > 1e-3


@pytest.mark.parametrize('acts_anew', [False, True])
def test_the_core_state_is_that_before_x_0(make_run, acts_anew):
  run = make_run(STACK, True, acts_anew)
  assert not any(np.any(x) for x in tf.nest.flatten(run.batch(0).core_state))
  for k in range(NUM_UNROLLS - 1):
    _, before_last = _recompute(run, k)
    recorded = run.batch(k + 1).core_state
    tf.nest.map_structure(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4),
        recorded, before_last)
    np.testing.assert_array_equal(
        recorded.last_action, run.batch(k).agent_outputs.action[-2])
    assert all(np.any(x) for x in recorded.lstm)


def test_parameters_are_fetched_as_an_unroll_begins_and_all_are_flushed(run):
  assert run.log == (
      ['fetch'] + ['step'] * T + ['write'] * E + ['flush to 0']
  ) * NUM_UNROLLS
  for k in range(NUM_UNROLLS):
    np.testing.assert_array_equal(run.batch(k).policy_version, [101 + k] * E)


def test_returns_go_on_over_unrolls_and_lost_lives(run):
  """The second game of environment 1 begins in unroll 2, at row 12."""
  rewards = np.array([r.reward[1] for r in run.environment.rows])
  expected = np.cumsum(rewards)
  expected[13:] -= expected[12]
  steps = np.arange(len(rewards))
  steps[13:] -= 12
  for k in range(NUM_UNROLLS):
    # Row 0 of all ended nothing.
    rows = slice(k * T + (k == 0), (k + 1) * T + 1)
    env_outputs = run.unrolls[k, 1].env_outputs
    np.testing.assert_allclose(
        env_outputs.episode_return[k == 0:], expected[rows])
    np.testing.assert_array_equal(
        env_outputs.episode_steps[k == 0:], steps[rows])
