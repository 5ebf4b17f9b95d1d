"""Levels that exist only for the measurements of table 1.

'single/<level>' is any other level, but each environment can step in a separate
process: otherwise the emulator of Atari steps a batch as a whole, which is
faster. 'timed/slow_restarts' needs no simulator. Most of its steps keep a core
busy for a millisecond; one in fifty, which ends an episode, for twenty.
"""

import time

import dm_env
from dm_env import specs
import numpy as np

from impala_tf.envs import domain
from impala_tf.envs import environment
from impala_tf.envs import factory

STEP_SECS, RESTART_SECS = 1e-3, 20e-3
_EPISODE_STEPS = 50  # On average.
_NUM_ACTIONS = 6
_SHAPE = (84, 84, 4)


class BusyEnvironment(environment.BatchedEnvironment):
  """Environments that show noise, and whose steps take CPU time."""

  def __init__(self, num_envs: int, seed: int):
    """Draws the noise that all steps show."""
    super().__init__('timed', num_envs, environment.discrete(_NUM_ACTIONS),
                     specs.Array(_SHAPE, np.uint8))
    self._rng = np.random.default_rng(seed)
    self._row = self._first(self._rng.integers(
        256, size=(num_envs, *_SHAPE), dtype=np.uint8))

  def reset(self) -> dm_env.TimeStep:
    return self._row

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    is_last = self._rng.random(self.num_envs) < 1 / _EPISODE_STEPS
    # The thread's own time: a process that waits for a core does no work.
    end = time.thread_time() + np.where(is_last, RESTART_SECS, STEP_SECS).sum()
    while time.thread_time() < end:
      pass
    return self._row._replace(
        step_type=(~is_last).view(np.uint8),  # FIRST is 0, MID is 1.
        reward=is_last.astype(np.float32),
        discount=(~is_last).astype(np.float32))

  def render(self) -> np.ndarray:
    raise NotImplementedError


factory.register('single', domain.Domain(
    forms=('single/<level>',), check=factory.check_level,
    make=factory.make_environment))
factory.register('timed', domain.Domain(
    forms=('timed/slow_restarts',), check=lambda name: None,
    make=lambda name, num_envs, seed, *unused: BusyEnvironment(num_envs, seed)))
