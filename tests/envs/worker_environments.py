"""What workers play in tests. They import this, so it imports nothing heavy."""

import os
import pathlib
import sys
import time

import dm_env
from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import environment
from impala_tf.envs import gym
from impala_tf.envs import minigrid

FIRST, MID = 0, 1
SHAPE = (2, 3)
NUM_ACTIONS = 4


class Ticking(environment.BatchedEnvironment):
  """Frames show an environment's number, the time and the last action.

  Ends of both kinds and lost lives come at times that depend on the number.
  """

  def __init__(self, num_envs, first_number=0, frame_stack=1):
    shape, dtype = SHAPE, np.float32
    if frame_stack > 1:
      shape, dtype = shape + (frame_stack,), np.uint8
    super().__init__(
        'ticking', num_envs, environment.discrete(NUM_ACTIONS),
        specs.Array(shape, dtype),
        frame_stack=frame_stack)
    self.level_index = np.arange(
        first_number, first_number + num_envs, dtype=np.int32)
    self.time = 0
    self._row = dm_env.TimeStep(
        np.zeros(num_envs, np.uint8), np.zeros(num_envs, np.float32),
        np.ones(num_envs, np.float32), np.zeros((num_envs,) + shape, dtype))

  def reset(self):
    return self._next(np.zeros(self.num_envs, np.int32))

  def _step(self, actions):
    self.time += 1
    return self._next(actions)

  def _next(self, actions):
    row = self._row  # The same arrays every time, as the interface allows.
    for e, number in enumerate(self.level_index):
      ends = self.time % (4 + number) == 0
      row.step_type[e] = FIRST if ends else MID
      row.reward[e] = self.time and 10 * number + actions[e] + 0.5
      row.discount[e] = not self.time or self.time % 3 == 0
      frame = np.zeros(SHAPE)
      frame[0] = number + 1, self.time, actions[e] + 1
      if self.frame_stack == 1:
        row.observation[e] = frame
      else:
        stack = row.observation[e]
        stack[..., :-1] = 0 if ends else stack[..., 1:].copy()
        stack[..., -1] = frame
    return row

  def render(self):
    raise NotImplementedError

  def close(self):
    pass


def _hang():
  time.sleep(1e6)


def _fail():
  raise RuntimeError('the simulator\nhas crashed')


def _refuse():
  raise config_lib.ConfigError('there is no such map')


FAULTS = {'hang': _hang, 'fail': _fail, 'refuse': _refuse,
          'exit': lambda: os._exit(3)}


class Faulty(Ticking):
  """One environment, of which that with the culprit's number has a fault.

  The fault comes after two steps: a name of `FAULTS`, or a file that is to be
  waited for.
  """

  def __init__(self, fault, culprit, number):
    super().__init__(1, number)
    self._fault = fault if number == culprit else None

  def _step(self, actions):
    if self._fault is not None and self.time == 2:
      if self._fault in FAULTS:
        FAULTS[self._fault]()
      while not pathlib.Path(self._fault).exists():
        time.sleep(0.01)
    return super()._step(actions)


class Introspective(Ticking):
  """Rewards tell whether TensorFlow is in the process, and which it is."""

  def _next(self, actions):
    row = super()._next(actions)
    row.discount[:] = 'tensorflow' in sys.modules
    row.reward[:] = os.getpid()
    return row


# To be made of in workers, by number; `functools.partial` gives the rest.


def ticking(frame_stack, number):
  return Ticking(1, number, frame_stack)


def faulty(fault, culprit, number):
  return Faulty(fault, culprit, number)


def never_there(culprit, number):
  if number == culprit:
    _refuse()
  return Ticking(1, number)


def introspective(number):
  return Introspective(1, number)


def gym_game(env_id, seed, number):
  env = gym.GymEnvironment(env_id, 1, seed + number)
  env.level_index[:] = number
  return env


def mission(seed, number):
  env = minigrid.MinigridEnvironment(
      'GoToObjS4-v0', 1, seed + number, 'babyai', instruction_length=4)
  env.level_index[:] = number
  return env
