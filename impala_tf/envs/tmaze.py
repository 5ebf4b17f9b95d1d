"""T-maze, a task of memory: the first observation decides the last action.

The task is that of Bakker 2002 ("Reinforcement Learning with Long Short-Term
Memory"), for a whole batch. Rewards are +1 and -1 instead of Bakker's 4 and
-0.1, so that guessing earns 0 and clipping to [-1, 1] changes nothing.
"""

import dm_env
from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import domain
from impala_tf.envs import environment

_MAX_LENGTH = 1000
_BUMP_REWARD = -0.1
# An episode is cut off after this many steps for each cell of the corridor. At
# length 10 that happens to three in four episodes of random play; the shortest
# way takes 1 + 1/N.
_LIMIT_PER_CELL = 10

_UP, _RIGHT, _DOWN, _LEFT = range(4)  # Actions.
_SIGNAL_UP, _SIGNAL_DOWN, _CORRIDOR, _JUNCTION = range(4)  # Observations.


def corridor_length(text: str) -> int:
  """Reads N of 'tmaze/<N>'; raises ConfigError unless N is 1 to 1,000."""
  # isdecimal alone would take other scripts' digits, too.
  if not (text.isascii() and text.isdecimal()
          and 1 <= int(text) <= _MAX_LENGTH):
    raise config_lib.ConfigError(
        "EnvironmentConfig.level: the corridor of 'tmaze/<length>' must be 1 "
        f'to {_MAX_LENGTH} cells long, but is {text!r}')
  return int(text)


class TMazeEnvironment(environment.BatchedEnvironment):
  """E corridors of N steps to a junction, where one of two turns is rewarded.

  Only an episode's first observation shows which turn, so an agent without
  memory earns 0 at best. Actions: 0 up, 1 right, 2 down, 3 left; the corridor
  leads right. A turn at the junction ends the episode with +1 or -1. Walking
  into a wall gives -0.1, as in Bakker 2002. After 10 N steps an episode is
  truncated.

  The observation is one-hot, float32 [4]: signal 'up', signal 'down', a cell of
  the corridor (after the signal, the first cell too), the junction.
  """

  frames_per_sec = 5.  # For people to watch.

  def __init__(self, length: int, num_envs: int, seed: int):
    super().__init__(
        f'tmaze/{length}', num_envs, environment.discrete(4),
        observation_spec=specs.Array((4,), np.float32, 'observation'))
    self._length = length
    self._rng = np.random.default_rng(seed)
    self._goes_up = np.zeros(num_envs, bool)
    self._position = np.zeros(num_envs, np.int64)
    self._steps = np.zeros(num_envs, np.int64)

  def reset(self) -> dm_env.TimeStep:
    self._begin_episodes(np.ones(self.num_envs, bool))
    return self._first(self._observe())

  def _begin_episodes(self, where: np.ndarray):
    self._goes_up[where] = self._rng.random(np.count_nonzero(where)) < 0.5
    self._position[where] = 0
    self._steps[where] = 0

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    self._steps += 1
    resets = self._was_truncated
    is_vertical = (actions == _UP) | (actions == _DOWN)
    turned = is_vertical & (self._position == self._length) & ~resets
    moves = np.where(is_vertical, 0, np.where(actions == _RIGHT, 1, -1))
    position = np.clip(self._position + moves, 0, self._length)
    bumped = (position == self._position) & ~turned
    is_right = (actions == _UP) == self._goes_up
    reward = np.where(turned, np.where(is_right, 1, -1),
                      np.where(bumped, _BUMP_REWARD, 0))
    self._position = position
    self._was_truncated = ~turned & (
        self._steps == _LIMIT_PER_CELL * self._length)
    self._begin_episodes(turned | resets)
    return self._as_timestep(
        turned | resets, np.where(resets, 0, reward), ~turned, self._observe(),
        self._was_truncated)

  def _observe(self) -> np.ndarray:
    signal = np.where(self._goes_up, _SIGNAL_UP, _SIGNAL_DOWN)
    cell = np.where(self._position == self._length, _JUNCTION, _CORRIDOR)
    return np.eye(4, dtype=np.float32)[np.where(self._steps == 0, signal, cell)]

  def render(self) -> np.ndarray:
    picture = np.zeros((3, self._length + 1, 3), np.uint8)
    picture[1] = picture[:, -1] = 255
    picture[0 if self._goes_up[0] else 2, -1] = (0, 255, 0)
    picture[1, self._position[0]] = (255, 0, 0)
    return picture.repeat(8, 0).repeat(8, 1)


DOMAIN = domain.Domain(
    forms=('tmaze/<length>',), check=corridor_length,
    make=lambda name, num_envs, seed, *unused: TMazeEnvironment(
        corridor_length(name), num_envs, seed))
