"""Acting on NumPy batches: what actors and evaluation share."""

from typing import Any

import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import types


class EpisodeCounter:
  """Return and length of each environment's episode, of raw rewards.

  A lost life is no end (its row is MID), so these are full games.
  """

  def __init__(self, num_envs: int):
    self._return = np.zeros(num_envs, np.float32)
    self._steps = np.full(num_envs, -1, np.int32)  # `reset` is no step.
    self._ended = np.zeros(num_envs, bool)

  def env_output(self, timestep: dm_env.TimeStep, instruction: Any = (),
                 rows: Any = slice(None)) -> types.EnvOutput:
    """Adds one batched step, the first being that of `reset`.

    See `types.EnvOutput` for what is counted. The next call overwrites it.

    Args:
      timestep: of these environments, in this order.
      instruction: `BatchedEnvironment.instruction` of that moment, likewise.
      rows: which they are, int [n] without repetition; all by default.
    """
    goes_on = ~self._ended[rows]
    self._ended[rows] = timestep.step_type == int(dm_env.StepType.FIRST)
    self._return[rows] = self._return[rows] * goes_on + timestep.reward
    self._steps[rows] = self._steps[rows] * goes_on + 1
    return types.EnvOutput(
        step_type=timestep.step_type,
        reward=timestep.reward,
        discount=timestep.discount,
        observation=timestep.observation,
        episode_return=self._return[rows],
        episode_steps=self._steps[rows],
        instruction=instruction)


class Policy:
  """An agent that acts on NumPy batches, one graph call a step.

  Its core state stays in the graph's tensors between calls.
  """

  def __init__(self, agent: Any, num_envs: int, seed: int,
               any_batch_size: bool = False):
    """Starts with the memory of a first step.

    Args:
      agent: an `agent.Agent`.
      num_envs: E.
      seed: of the action sampling.
      any_batch_size: calls may be of any number of rows, `core_state` being set
        to theirs before; otherwise of E, which costs a little less.
    """
    self._any_batch_size = any_batch_size
    self._seed = seed
    self._num_calls = 0
    self.core_state = agent.initial_state(num_envs)
    self._agent = agent
    self._step = None

  def act(self, env_output: types.EnvOutput) -> types.AgentOutput:
    """Chooses actions [E] at the batch x_t, as NumPy arrays."""
    # TensorFlow gets what the agent looks at, and a seed for this call alone:
    # the same seed and call number give the same actions.
    seen = types.EnvOutput(
        step_type=tf.constant(env_output.step_type),
        reward=tf.constant(env_output.reward), discount=(),
        observation=tf.constant(env_output.observation),
        episode_return=(), episode_steps=(),
        instruction=tf.nest.map_structure(tf.constant, env_output.instruction))
    seed = tf.constant([self._seed, self._num_calls], tf.int32)
    self._num_calls += 1
    # A `tf.function` looks at its arguments to choose a graph, every time: a
    # tenth of what a small batch costs.
    if self._step is None:
      step = tf.function(self._agent.step, autograph=False)  # Traces faster.
      example = seen, self.core_state
      if self._any_batch_size:
        example = tf.nest.map_structure(
            lambda t: tf.TensorSpec([None] + t.shape[1:], t.dtype), example)
      self._step = step.get_concrete_function(*example, seed)
    agent_output, self.core_state = self._step(seen, self.core_state, seed)
    return types.AgentOutput(*(t.numpy() for t in agent_output))


class RowPolicy:
  """The same for some of E environments at a time, whichever they are.

  One graph serves any number of rows, so nothing is traced anew.

  Attributes:
    core_state: of all E before their next x_t, NumPy arrays [E, ...].
  """

  def __init__(self, agent: Any, num_envs: int, seed: int):
    self._policy = Policy(agent, num_envs, seed, any_batch_size=True)
    self.core_state = tf.nest.map_structure(
        lambda t: t.numpy(), self._policy.core_state)

  def act(self, env_output: types.EnvOutput,
          rows: np.ndarray) -> types.AgentOutput:
    """Chooses actions [n] at x_t of these environments, as NumPy arrays.

    Args:
      env_output: leading [n].
      rows: which environments, int [n] without repetition.
    """
    self._policy.core_state = tf.nest.map_structure(
        lambda array: tf.constant(array[rows]), self.core_state)
    agent_output = self._policy.act(env_output)

    def put(array, t):
      array[rows] = t.numpy()

    tf.nest.map_structure(put, self.core_state, self._policy.core_state)
    return agent_output
