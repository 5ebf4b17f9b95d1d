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

  def env_output(self, timestep: dm_env.TimeStep, instruction: Any = ()
                 ) -> types.EnvOutput:
    """Adds one batched step, the first being that of `reset`.

    See `types.EnvOutput` for what is counted. The next call overwrites it.

    Args:
      timestep: as the environment returned it.
      instruction: `BatchedEnvironment.instruction` of that moment.
    """
    self._return[self._ended] = 0
    self._steps[self._ended] = 0
    self._ended = timestep.step_type == int(dm_env.StepType.FIRST)
    self._return += timestep.reward
    self._steps += 1
    return types.EnvOutput(
        step_type=timestep.step_type,
        reward=timestep.reward,
        discount=timestep.discount,
        observation=timestep.observation,
        episode_return=self._return,
        episode_steps=self._steps,
        instruction=instruction)


class Policy:
  """An agent that acts on NumPy batches, one graph call a step.

  Its core state stays in the graph's tensors between calls.
  """

  def __init__(self, agent: Any, num_envs: int, seed: int):
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
      self._step = step.get_concrete_function(seen, self.core_state, seed)
    agent_output, self.core_state = self._step(seen, self.core_state, seed)
    return types.AgentOutput(*(t.numpy() for t in agent_output))
