"""Recomputed memory is that of an agent which plays the episode again."""

from dm_env import specs
import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.agents import replayed_memory
from impala_tf.maths import distributions

T, A, SHAPE = 4, 3, (6,)
NUM_STEPS = 3 * T + 1
FIRST = 0


def _agent():
  agent = agent_lib.Agent(distributions.Categorical(A), config_lib.AgentConfig(
      torso='mlp', use_lstm=True, hidden_size=7, lstm_size=5))
  agent.build(specs.Array(SHAPE, np.float32))
  return agent


class _Fetcher:
  """Gives an agent's variables other values at each fetch."""

  def __init__(self, agent, values):
    self._agent = agent
    self._values = iter(values)

  def fetch(self):
    for variable in self._agent.trainable_variables:
      variable.assign(np.full(variable.shape, next(self._values)))


def _steps(batch_size=2):
  """Makes a stretch of steps; an episode begins at step 2 of the first."""
  rng = np.random.default_rng(0)
  shape = [NUM_STEPS, batch_size]
  step_type = np.ones(shape, np.uint8)
  step_type[2, 0] = step_type[0, 1] = FIRST
  env_outputs = types.EnvOutput(
      step_type=step_type, reward=rng.normal(size=shape).astype(np.float32),
      discount=np.ones(shape, np.float32),
      observation=rng.normal(size=[*shape, *SHAPE]).astype(np.float32),
      episode_return=np.zeros(shape, np.float32),
      episode_steps=np.zeros(shape, np.int32))
  actions = rng.integers(A, size=shape).astype(np.int32)
  return tf.nest.map_structure(tf.constant, (env_outputs, actions))


def _unrolls(env_outputs, actions, core_state):
  """Cuts steps into three unrolls, of which each has the same memory."""
  for start in range(0, NUM_STEPS - 1, T):
    cut = slice(start, start + T + 1)
    yield types.Unroll(
        tf.nest.map_structure(lambda t, cut=cut: t[cut], env_outputs),
        types.AgentOutput(actions[cut], ()), core_state, (), ())


def _played(agent, env_outputs, actions, core_state, num_steps):
  """Steps through; returns the memory before step `num_steps`."""
  for t in range(num_steps):
    _, core_state = agent.step(
        tf.nest.map_structure(lambda x, t=t: x[t], env_outputs), core_state,
        seed=tf.constant([1, t]))
    core_state = core_state._replace(last_action=actions[t])
  return core_state


def test_memory_is_that_of_stepping_through_the_episode():
  agent = _agent()
  env_outputs, actions = _steps()
  recompute = replayed_memory.MemoryRecomputer(
      agent, _Fetcher(agent, iter(np.linspace(-.4, .5, 1000))))
  stale = tf.nest.map_structure(
      lambda t: t + tf.ones([], t.dtype), agent.initial_state(2))
  core_state = stale
  for i, unroll in enumerate(_unrolls(env_outputs, actions, stale), 1):
    before = core_state
    core_state = recompute(unroll._replace(core_state=core_state))
    # With the parameters that were fetched just now.
    expected = _played(agent, *[
        tf.nest.map_structure(lambda t, i=i: t[(i - 1) * T:], x)
        for x in (env_outputs, actions)], before, T)
    tf.nest.map_structure(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6),
        core_state, expected)
