"""Segments: the steps that a worker plays between two of its updates."""

from typing import Any, Optional

import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import types
from impala_tf.agents import acting

_FIRST = int(dm_env.StepType.FIRST)
# Whole episodes have any length, and each length traces a graph: they are
# padded to this or to the next power of two.
_MIN_EPISODE_STEPS = 16


class SegmentBuffer:
  """A buffer that assembles an unroll [T+1, 1] step by step.

  A segment that ends early is padded with steps that begin an episode after a
  time limit: no transition into them is learned from or counts in means.
  """

  def __init__(self, max_steps: Optional[int]):
    """Sets T; the first step, which shows the shapes, allocates.

    If `max_steps` is None T is the episode's length, padded to a power of two.
    """
    self._max_steps = max_steps
    self._capacity = 0  # Rows.
    self._arrays: Any = None
    self._input_buffers: Any = None
    self._core_state = ()
    self._last = -1  # The newest row.

  def begin(self, core_state: Any) -> None:
    """Begins a segment with the memory before x_0, tensors [1, ...]."""
    self._core_state = core_state
    self._last = -1

  def record(self, env_output: types.EnvOutput,
             agent_output: types.AgentOutput) -> None:
    """Adds x_t with the action chosen there, leading [1] each."""
    row = env_output, agent_output
    self._last += 1
    if self._last >= self._capacity:
      self._grow(row)
    acting.put_rows(self._arrays, self._last, row)

  def _grow(self, row: Any) -> None:
    """Makes room for twice as many steps, or for the most there may be."""
    steps = self._max_steps or max(
        _MIN_EPISODE_STEPS, 2 * (self._capacity - 1))
    old, num_rows = self._arrays, self._capacity
    self._capacity = steps + 1
    self._arrays = tf.nest.map_structure(
        lambda x: np.zeros((self._capacity, *x.shape), x.dtype), row)
    self._input_buffers = tf.nest.map_structure(
        lambda array: acting.InputBuffer(array, self._capacity), self._arrays)
    if old is not None:
      acting.put_rows(self._arrays, slice(num_rows), old)

  @property
  def num_steps(self) -> int:
    """Transitions of the segment so far."""
    return self._last

  def unroll(self) -> types.Unroll:
    """Returns the segment, padded; the next segment overwrites it.

    Versions and levels are empty: the policy that acted learns, and there is
    one level.
    """
    num_steps = self._max_steps or max(
        _MIN_EPISODE_STEPS, 1 << (self._last - 1).bit_length())
    self._pad(num_steps + 1)
    env_outputs, agent_outputs = tf.nest.map_structure(
        lambda buffer, array: buffer.tensor(
            array[:num_steps + 1], num_steps + 1),
        self._input_buffers, self._arrays)
    return types.Unroll(env_outputs, agent_outputs, self._core_state,
                        policy_version=(), level_index=())

  def _pad(self, num_rows: int) -> None:
    padding = slice(self._last + 1, num_rows)
    acting.put_rows(self._arrays, padding, tf.nest.map_structure(
        lambda array: array[self._last], self._arrays))
    steps = self._arrays[0]
    steps.step_type[padding] = _FIRST
    steps.reward[padding] = 0
    steps.discount[padding] = 1
