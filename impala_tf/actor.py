"""The actor: plays a batch of environments and sends unrolls."""

from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from impala_tf import agent as agent_lib
from impala_tf import policy
from impala_tf import types
from impala_tf.envs import environment as environment_lib


class Writer(Protocol):
  """Where unrolls go; `replay.UnrollWriter` is one."""

  def write(self, unroll: types.Unroll) -> None:
    """Takes a copy of one unroll (NumPy, no batch dimension)."""

  def flush(self) -> None:
    """Returns when all that was written has arrived."""


class Fetcher(Protocol):
  """Where parameters come from; `weights.Fetcher` is one."""

  def fetch(self) -> Any:
    """Updates the agent's variables and returns their version."""


class Actor:
  """Plays and sends, one batch of unrolls at a time."""

  def __init__(self, agent: agent_lib.Agent,
               environment: environment_lib.BatchedEnvironment,
               writer: Writer, fetcher: Fetcher, spec: types.Unroll, seed: int):
    """Starts the environments.

    Args:
      agent: its variables are what `fetcher` updates.
      environment: E of them.
      writer: takes the unrolls.
      fetcher: brings parameters.
      spec: of one unroll, see `types.unroll_spec`.
      seed: of the action sampling.
    """
    num_envs = environment.num_envs
    self._environment = environment
    self._writer = writer
    self._fetcher = fetcher
    self._policy = policy.Policy(agent, num_envs, seed)
    self._counter = policy.EpisodeCounter(num_envs)
    self._num_steps = spec.env_outputs.reward.shape[0]  # T+1
    self._frame_stack = environment.frame_stack
    # One unroll an environment, contiguous, filled step by step.
    self._buffers = tf.nest.map_structure(
        lambda s: np.zeros([num_envs] + s.shape, s.dtype.as_numpy_dtype), spec)
    self._env_output = self._counter.env_output(environment.reset())
    self._core_state = self._policy.core_state  # Before x_t.
    self._agent_output = self._policy.act(self._env_output)

  def run_unroll(self) -> None:
    """Plays T steps in each environment and sends the E unrolls.

    Raises:
      ConnectionError: where writer or fetcher have lost the learner.
    """
    self._buffers.policy_version[:] = self._fetcher.fetch()
    tf.nest.map_structure(
        lambda buffer, t: np.copyto(buffer, t.numpy()),
        self._buffers.core_state, self._core_state)
    self._record(0)
    for t in range(1, self._num_steps):
      timestep = self._environment.step(self._agent_output.action)
      self._env_output = self._counter.env_output(timestep)
      self._core_state = self._policy.core_state
      self._agent_output = self._policy.act(self._env_output)
      self._record(t)
    flat = tf.nest.flatten(self._buffers)
    for unroll in zip(*flat):  # Over environments, the buffers' first axis.
      self._writer.write(tf.nest.pack_sequence_as(self._buffers, unroll))
    self._writer.flush()

  def _record(self, t: int) -> None:
    """Puts x_t and the action taken there into the buffers."""
    self._record_observation(t, self._env_output.observation)
    rest = self._env_output._replace(observation=())
    buffers = self._buffers.env_outputs._replace(observation=())
    for buffer, value in zip(
        tf.nest.flatten((buffers, self._buffers.agent_outputs)),
        tf.nest.flatten((rest, self._agent_output))):
      buffer[:, t] = value

  def _record_observation(self, t: int, observation: np.ndarray) -> None:
    """Each frame once: the whole stack of x_0, then the newest frames."""
    buffer = self._buffers.env_outputs.observation
    stack = self._frame_stack
    if stack == 1:
      buffer[:, t] = observation
    elif t == 0:
      for i in range(stack):
        buffer[:, i] = observation[..., i]
    else:
      buffer[:, t + stack - 1] = observation[..., -1]
