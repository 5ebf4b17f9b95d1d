"""A new environment: a meadow in which apples are to be picked.

    ./launch/train.sh examples/my_environment.gin \
        --import=examples/my_environment.py

docs/own_environment.md explains it.
"""

import gymnasium
from gymnasium import spaces
import numpy as np

_MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # Up, right, down, left.


class Meadow(gymnasium.Env):
  """A square meadow with one apple at a time, and a picker who walks to it.

  An observation is (row, column) of the picker and of the apple. The reward is
  1 for an apple, in whose place another one grows elsewhere.
  """

  metadata = {'render_modes': ['rgb_array'], 'render_fps': 5}

  def __init__(self, size=5, render_mode=None):
    self.size = size
    self.render_mode = render_mode
    self.observation_space = spaces.Box(0, size - 1, (4,), np.int64)
    self.action_space = spaces.Discrete(len(_MOVES))

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)  # Makes self.np_random.
    self._picker = self.np_random.integers(self.size, size=2)
    self._grow()
    return self._observe(), {}

  def step(self, action):
    self._picker = np.clip(self._picker + _MOVES[action], 0, self.size - 1)
    is_picked = np.array_equal(self._picker, self._apple)
    if is_picked:
      self._grow()
    # It has no end: the time limit below truncates it.
    return self._observe(), float(is_picked), False, False, {}

  def render(self):
    picture = np.zeros((self.size, self.size, 3), np.uint8)
    picture[tuple(self._apple)] = 255, 0, 0
    picture[tuple(self._picker)] = 255, 255, 255
    return np.kron(picture, np.ones((32, 32, 1), np.uint8))

  def _grow(self):
    self._apple = self._picker
    while np.array_equal(self._apple, self._picker):
      self._apple = self.np_random.integers(self.size, size=2)

  def _observe(self):
    return np.concatenate([self._picker, self._apple])


class Map(gymnasium.ObservationWrapper):
  """A wrapper that turns the numbers into a map, which is learned faster.

  An observation is bytes [size, size, 2], with 1 at the picker in the first
  plane and 1 at the apple in the second.
  """

  def __init__(self, env):
    super().__init__(env)
    self._shape = (env.unwrapped.size, env.unwrapped.size, 2)
    self.observation_space = spaces.Box(0, 1, self._shape, np.uint8)

  def observation(self, observation):
    planes = np.zeros(self._shape, np.uint8)
    row, column, apple_row, apple_column = observation
    planes[row, column, 0] = planes[apple_row, apple_column, 1] = 1
    return planes


def make(**kwargs):
  """Makes a meadow of the arguments in `EnvironmentConfig.kwargs`."""
  return Map(Meadow(**kwargs))


gymnasium.register('Meadow-v0', make, max_episode_steps=50)
