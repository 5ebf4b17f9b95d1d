"""Acting on NumPy batches, for actors and for evaluation."""

from typing import Any, Tuple

import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.envs import environment as environment_lib


class EpisodeCounter:
  """Return and length of each environment's episode, of raw rewards.

  A lost life is no end (its row is MID), so the episodes are full games.
  """

  def __init__(self, num_envs: int):
    """Begins before the first step.

    Args:
      num_envs: E.
    """
    self._return = np.zeros(num_envs, np.float32)
    self._steps = np.full(num_envs, -1, np.int32)  # `reset` is no step.
    self._ended = np.zeros(num_envs, bool)

  def env_output(self, timestep: dm_env.TimeStep,
                 side_channels: environment_lib.SideChannels =
                 environment_lib.NO_SIDE_CHANNELS,
                 rows: Any = slice(None)) -> types.EnvOutput:
    """Adds one batched step to the count; the first is that of `reset`.

    Args:
      timestep: a step of some environments, leading [n].
      side_channels: `BatchedEnvironment.side_channels` of that step, leading
        [n].
      rows: numbers of these environments, int [n] without repetition; all E by
        default.

    Returns:
      The step with its counts, see `types.EnvOutput`. The next call overwrites
      its arrays.
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
        **side_channels._asdict())


def _constant(side_channel: Any) -> Any:
  """Makes a tensor of a side channel; leaves the empty tuple where none is."""
  # `tf.nest` needs 15 us for an empty tuple, in every step of every actor.
  if isinstance(side_channel, tuple):
    return side_channel
  return tf.constant(side_channel)


class _GraphStep:
  """An agent's step on NumPy batches as one call of a graph.

  Core states are handed in and out. It counts its calls: seed and number of a
  call determine the actions that are sampled in it.
  """

  def __init__(self, agent: agent_lib.Agent, seed: int, any_batch_size: bool,
               deterministic: bool = False):
    """Builds no graph yet, since the first call shows the shapes.

    Args:
      agent: acts.
      seed: seed with which actions are sampled.
      any_batch_size: whether the number of rows differs between calls; where it
        does not, a call costs a little less.
      deterministic: see `Agent.step`.
    """
    self._agent = agent
    self._seed = seed
    self._any_batch_size = any_batch_size
    self._deterministic = deterministic
    self._num_calls = 0
    self._graph = None

  def __call__(self, env_output: types.EnvOutput, core_state: Any
               ) -> Tuple[types.AgentOutput, Any]:
    """Chooses actions at x_t.

    Args:
      env_output: NumPy arrays, leading [n].
      core_state: tensors, leading [n], before x_t.

    Returns:
      Actions with their logits as NumPy arrays, and the next core state as
      tensors.
    """
    # TensorFlow gets only the fields that the agent uses.
    seen = types.EnvOutput(
        step_type=tf.constant(env_output.step_type),
        reward=tf.constant(env_output.reward), discount=(),
        observation=tf.constant(env_output.observation),
        episode_return=(), episode_steps=(),
        **{name: _constant(getattr(env_output, name))
           for name in environment_lib.SideChannels._fields})
    seed = tf.constant([self._seed, self._num_calls], tf.int32)
    self._num_calls += 1
    # A `tf.function` looks at its arguments to choose a graph, every time: a
    # tenth of what a small batch costs.
    if self._graph is None:
      self._graph = self._build(seen, core_state, seed)
    agent_output, core_state = self._graph(seen, core_state, seed)
    return types.AgentOutput(*(t.numpy() for t in agent_output)), core_state

  def _build(self, seen: types.EnvOutput, core_state: Any, seed: tf.Tensor):
    step = tf.function(
        lambda *inputs: self._agent.step(*inputs, self._deterministic),
        autograph=False)  # Traces faster.
    example = seen, core_state
    if self._any_batch_size:
      example = tf.nest.map_structure(
          lambda t: tf.TensorSpec([None] + t.shape[1:], t.dtype), example)
    return step.get_concrete_function(*example, seed)


class Policy:
  """An agent that acts on NumPy batches of E environments.

  Attributes:
    core_state: core states of all E before their next x_t, tensors [E, ...].
  """

  def __init__(self, agent: agent_lib.Agent, num_envs: int, seed: int,
               deterministic: bool = False):
    """Starts with the memory of a first step.

    Args:
      agent: acts.
      num_envs: E.
      seed: seed with which actions are sampled.
      deterministic: see `Agent.step`.
    """
    self.core_state = agent.initial_state(num_envs)
    self._step = _GraphStep(agent, seed, any_batch_size=False,
                            deterministic=deterministic)

  def act(self, env_output: types.EnvOutput) -> types.AgentOutput:
    """Chooses actions [E] at the batch x_t, as NumPy arrays."""
    agent_output, self.core_state = self._step(env_output, self.core_state)
    return agent_output


class RowPolicy:
  """An agent that acts for any of E environments at a time.

  One graph serves any number of rows, so nothing is traced anew.

  Attributes:
    core_state: core states of all E before their next x_t, NumPy arrays
      [E, ...].
  """

  def __init__(self, agent: agent_lib.Agent, num_envs: int, seed: int):
    """Starts with the memory of a first step; see `Policy`."""
    self.core_state = tf.nest.map_structure(
        lambda t: t.numpy(), agent.initial_state(num_envs))
    self._step = _GraphStep(agent, seed, any_batch_size=True)

  def act(self, env_output: types.EnvOutput,
          rows: np.ndarray) -> types.AgentOutput:
    """Chooses actions [n] at x_t of some environments, as NumPy arrays.

    Args:
      env_output: x_t of these environments, leading [n].
      rows: numbers of these environments, int [n] without repetition.
    """
    agent_output, core_state = self._step(env_output, tf.nest.map_structure(
        lambda array: tf.constant(array[rows]), self.core_state))

    def put(array, t):
      array[rows] = t.numpy()

    tf.nest.map_structure(put, self.core_state, core_state)
    return agent_output
