"""The actor: plays a batch of environments and sends unrolls."""

import collections
import time
from typing import Any, Iterator, Protocol

import numpy as np
import tensorflow as tf

from impala_tf import types
from impala_tf.agents import acting
from impala_tf.agents import agent as agent_lib
from impala_tf.comms import packing
from impala_tf.envs import environment as environment_lib
from impala_tf.runtime import interfaces


class Writer(Protocol):
  """A destination of unrolls; see `queue.UnrollWriter`."""

  def write(self, unroll: packing.PackedUnroll) -> None:
    """Writes a copy of one unroll (NumPy, no batch dimension)."""

  def flush(self, max_pending: int = 0) -> None:
    """Waits until all but `max_pending` unrolls have arrived."""


class UnrollBuffer:
  """A buffer that assembles E unrolls step by step, in the columns to send."""

  def __init__(self, spec: types.Unroll, level_index: np.ndarray,
               frame_stack: int):
    """Allocates the arrays, which every batch of unrolls reuses.

    `spec` is `types.unroll_spec`'s, `level_index` int32 [E], `frame_stack` S.
    """
    num_envs = len(level_index)
    self._frame_stack = frame_stack
    columns, self._arrays, _ = packing.Packing(spec).allocate(num_envs)
    self._arrays.level_index[:] = level_index
    self._unrolls = [
        packing.PackedUnroll(
            tuple(column[i] for column in columns),
            tf.nest.map_structure(lambda x, i=i: x[i, ...], self._arrays),
            row=i)
        for i in range(num_envs)]
    steps = self._arrays.env_outputs._replace(observation=())
    # Arrays of all steps but observations, by their place among the values.
    self._step_arrays = [
        (i, array) for i, array in enumerate(steps + self._arrays.agent_outputs)
        if isinstance(array, np.ndarray)]

  def begin(self, policy_version: int, core_state: Any,
            rows: Any = slice(None)) -> None:
    """Begins unrolls of the environments `rows`, int [n]; of all by default.

    `policy_version` counts the updates behind the parameters that act;
    `core_state` is that before x_0, tensors or arrays [n, ...].
    """
    self._arrays.policy_version[rows] = policy_version
    environment_lib.put_rows(self._arrays.core_state, rows, core_state)

  def record(self, t: Any, env_output: types.EnvOutput,
             agent_output: types.AgentOutput, rows: Any = slice(None)) -> None:
    """Stores observations x_t and the actions chosen there, leading [n] each.

    `t` is 0 to T; or int [n] if rows are at different steps, none of them at 0.
    """
    values = env_output + agent_output
    for i, array in self._step_arrays:
      array[rows, t] = values[i]
    # Each frame once: the stack of x_0, then the newest frames.
    observation, array = (
        env_output.observation, self._arrays.env_outputs.observation)
    stack = self._frame_stack
    if stack == 1:
      array[rows, t] = observation
    elif np.ndim(t) == 0 and t == 0:
      for i in range(stack):
        array[rows, i] = observation[..., i]
    else:
      array[rows, t + stack - 1] = observation[..., -1]

  def unrolls(self, rows: Any = slice(None)) -> Iterator[packing.PackedUnroll]:
    """Yields the unrolls of `rows` as views of arrays that are reused."""
    for row in np.arange(len(self._unrolls))[rows]:
      yield self._unrolls[row]


class Stopwatch:
  """A stopwatch that adds up the wall time, `secs`, of phases by name."""

  def __init__(self) -> None:
    self.secs: dict[str, float] = collections.defaultdict(float)
    self._last = time.perf_counter()

  def lap(self, name: str | None = None) -> None:
    """Adds the time since the last `lap` to a phase; None discards it."""
    now = time.perf_counter()
    if name is not None:
      self.secs[name] += now - self._last
    self._last = now


class Actor:
  """An actor that plays in lock-step and sends one batch of unrolls at a time.

  `stopwatch` has the seconds of weights, environment, inference, assembly,
  write, and of waiting for a full queue (queue_full).
  """

  def __init__(self, agent: agent_lib.Agent, environment: Any,
               writer: Writer, fetcher: interfaces.Fetcher,
               spec: types.Unroll, seed: int, acts_anew: bool = False):
    """Starts the environments, E in lock-step.

    They are an `environment.BatchedEnvironment`, or have the methods of one
    that are used here. `fetcher` updates the agent's variables, `spec` is
    `types.unroll_spec`'s, and `seed` samples actions. With `acts_anew` the
    newly fetched parameters choose the action at x_0, too. Else it stays that
    of the unroll before, which costs nothing.
    """
    num_envs = environment.num_envs
    self._acts_anew = acts_anew
    self._environment = environment
    self.writer = writer
    self._fetcher = fetcher
    self._policy = acting.Policy(agent, num_envs, seed)
    self._counter = acting.EpisodeCounter(num_envs, environment.reward_scale)
    self._num_steps = spec.env_outputs.reward.shape[0]  # T+1
    self._buffer = UnrollBuffer(spec, environment.level_index,
                                environment.frame_stack)
    self.stopwatch = Stopwatch()
    self._env_output = self._counter.env_output(
        environment.reset(), environment.side_channels)
    self._core_state = self._policy.core_state  # Before x_t.
    self._agent_output = self._policy.act(self._env_output)

  def run_unroll(self) -> None:
    """Plays T steps in each environment and sends the E unrolls.

    Raises ConnectionError if writer or fetcher have lost the learner.
    """
    lap = self.stopwatch.lap
    lap()  # Time between calls is not billed.
    version = self._fetcher.fetch()
    assert version is not None  # `Fetcher.wait` came first.
    lap('weights')
    if self._acts_anew:
      self._policy.core_state = self._core_state
      self._agent_output = self._policy.act(self._env_output)
      lap('inference')
    self._buffer.begin(version, self._core_state)
    self._buffer.record(0, self._env_output, self._agent_output)
    for t in range(1, self._num_steps):
      lap('assembly')
      timestep = self._environment.step(self._agent_output.action)
      self._env_output = self._counter.env_output(
          timestep, self._environment.side_channels)
      lap('environment')
      self._core_state = self._policy.core_state
      self._agent_output = self._policy.act(self._env_output)
      lap('inference')
      self._buffer.record(t, self._env_output, self._agent_output)
    lap('assembly')
    for unroll in self._buffer.unrolls():
      self.writer.write(unroll)
    lap('write')
    # Unrolls sent while the learner is behind would only grow old.
    self.writer.flush()
    lap('queue_full')

  def close(self) -> None:
    """Ends the environments."""
    self._environment.close()
