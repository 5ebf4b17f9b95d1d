"""Environments that a test can tell apart, count, and spoil.

Gymnasium imports this module by itself for 'gym/tests.faults.environments:…'.
Where files are to be, the variable FAULTS_DIR says.
"""

import os
import pathlib
import sys

import gymnasium
import numpy as np

from impala_tf.envs import gym
from tests import programs

EPISODE_STEPS = 7
_MODULE = 'tests.faults.environments'


def directory():
  return pathlib.Path(os.environ['FAULTS_DIR'])


def variables(path, **others):
  """The environment of programs that play these and write there."""
  return {**os.environ, 'FAULTS_DIR': str(path), gym.TRUSTED_MODULES: _MODULE,
          'PYTHONPATH': os.pathsep.join(
              [str(programs.ROOT), *filter(None, sys.path)]), **others}


class Counter(gymnasium.Env):
  """Each observation is one more than the last, and says whose it is.

  It is (process, environment, number); the reward follows from number and
  action. How far it has come is in a file that a killed process leaves behind.
  """
  observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
  action_space = gymnasium.spaces.Discrete(4)
  _num_made = 0

  def __init__(self, render_mode=None):
    del render_mode
    self._me = (os.getpid(), Counter._num_made)
    Counter._num_made += 1
    self._number = -1
    self._file = None

  def _observation(self):
    if self._file is None:  # Not of environments that are only looked at.
      path = directory() / f'{self._me[0]}-{self._me[1]}.count'
      self._file = np.memmap(path, np.int64, 'w+', shape=(1,))
    self._file[0] = self._number
    return np.array([*self._me, self._number], np.float32)

  def reset(self, seed=None, options=None):
    super().reset(seed=seed)
    self._number += 1
    return self._observation(), {}

  def step(self, action):
    # The observation of an episode's last step is never seen: the next reset
    # gets its number.
    number = self._number + 1
    ends = number % EPISODE_STEPS == 0
    if not ends:
      self._number = number
    return self._observation(), reward(number, action), ends, False, {}


def reward(number, action):
  """Of the step that led to this number."""
  return float(10 * (number % 100) + action)


class Spoilt(gymnasium.Env):
  """Gives what is in the file `spoil`, if anything: 'reward nan 4'.

  The last is of how many environments one does.
  """
  observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)
  _num_made = 0

  def __init__(self, render_mode=None):
    del render_mode
    self._me = Spoilt._num_made
    Spoilt._num_made += 1
    self._steps = 0

  def reset(self, seed=None, options=None):
    super().reset(seed=seed)
    return self._observation(0.), {}

  def _observation(self, value):
    return np.array([self._steps % EPISODE_STEPS, 1., value], np.float32)

  def step(self, action):
    self._steps += 1
    try:
      field, value, of = (directory() / 'spoil').read_text().split()
    except (FileNotFoundError, ValueError):
      field, value, of = '', '0', '1'
    if self._me % int(of):
      field = ''
    bad = float(value)
    return (self._observation(bad if field == 'observation' else 0.),
            bad if field == 'reward' else float(action),
            self._steps % EPISODE_STEPS == 0, False, {})


for name, entry_point in (('Counter-v0', Counter), ('Spoilt-v0', Spoilt)):
  if name not in gymnasium.registry:
    gymnasium.register(name, entry_point, disable_env_checker=True)

COUNTER = f'gym/{_MODULE}:Counter-v0'
SPOILT = f'gym/{_MODULE}:Spoilt-v0'


def counts(path):
  """(process, environment) to how far it came."""
  return {tuple(map(int, file.stem.split('-'))):
          int(np.fromfile(file, np.int64)[0])
          for file in pathlib.Path(path).glob('*.count')}
