"""Simulators that are stepped in turn within one process."""

import abc
from typing import Any, NamedTuple

import dm_env
from dm_env import specs
import numpy as np

from impala_tf.envs import environment


class Transition(NamedTuple):
  """What one step of one simulator led to.

  Attributes:
    observation: the one that ends the episode, too; unused at a termination.
    reward: raw.
    terminated: whether nothing can follow, so that the value is 0.
    truncated: whether a time limit ends the episode here; a termination wins.
  """
  observation: Any
  reward: float
  terminated: bool
  truncated: bool


class SerialEnvironment(environment.BatchedEnvironment):
  """E simulators that are stepped in turn.

  A subclass says how one of them begins an episode, and how it steps. Side
  channels are written there, too.
  """

  def __init__(self, level: str, num_envs: int,
               action_spec: specs.BoundedArray, observation_spec: specs.Array,
               **options: Any):
    super().__init__(level, num_envs, action_spec, observation_spec, **options)
    self._observation = np.zeros(
        (num_envs, *observation_spec.shape), observation_spec.dtype)
    self._was_truncated = np.zeros(num_envs, bool)

  @abc.abstractmethod
  def _begin(self, i: int) -> Any:
    """Begins an episode of simulator i; returns its first observation."""

  @abc.abstractmethod
  def _advance(self, i: int, action: Any) -> Transition:
    """Plays one agent step of simulator i."""

  def reset(self) -> dm_env.TimeStep:
    self._was_truncated[:] = False
    for i in range(self.num_envs):
      self._observation[i] = self._begin(i)
    return self._first(self._observation)

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    terminated, truncated = np.zeros((2, self.num_envs), bool)
    reward = np.zeros(self.num_envs)
    begins = self._was_truncated
    for i in range(self.num_envs):
      if not begins[i]:
        observation, reward[i], terminated[i], truncated[i] = self._advance(
            i, actions[i])
      if begins[i] or terminated[i]:
        observation = self._begin(i)
      self._observation[i] = observation
    self._was_truncated = truncated & ~terminated
    return self._as_timestep(
        begins | terminated, reward, ~terminated, self._observation,
        self._was_truncated)
