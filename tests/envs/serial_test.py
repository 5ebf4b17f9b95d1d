"""Simulators in turn: rows of ends, on a simulator that plays a script."""

import dm_env
from dm_env import specs
import numpy as np

from impala_tf.agents import acting
from impala_tf.envs import environment
from impala_tf.envs import serial

FIRST, MID, LAST = dm_env.StepType


class _Scripted(serial.SerialEnvironment):
  """An environment whose observation is (episode, step) and reward its action.

  An action of 1 terminates, 2 truncates, 3 does both.
  """

  def __init__(self, num_envs):
    super().__init__('scripted', num_envs, environment.discrete(4),
                     specs.Array((2,), np.float32, 'observation'))
    self._places = np.zeros((num_envs, 2), np.float32)

  def _begin(self, i):
    self._places[i] = [self._places[i, 0] + 1, 0]
    return self._places[i]

  def _advance(self, i, action):
    self._places[i, 1] += 1
    return serial.Transition(
        self._places[i], float(action), action in (1, 3), action in (2, 3))

  def render(self):
    raise NotImplementedError


def _played(*actions):
  """Plays one environment; returns (observation, type, reward, discount)."""
  env = _Scripted(1)
  env.reset()
  rows = (env.step(np.array([action], np.int32)) for action in actions)
  return [(tuple(row.observation[0]), row.step_type[0], row.reward[0],
           row.discount[0]) for row in rows]


def test_termination_resets_within_its_step_and_wins():
  for end in 1, 3:
    assert _played(0, end, 0) == [
        ((1, 1), MID, 0, 1), ((2, 0), FIRST, end, 0), ((2, 1), MID, 0, 1)]


def test_limit_shows_its_last_observation_and_resets_a_step_later():
  assert _played(0, 2, 3, 0) == [
      ((1, 1), MID, 0, 1), ((1, 2), LAST, 2, 1), ((2, 0), FIRST, 0, 1),
      ((2, 1), MID, 0, 1)]


def test_reset_forgets_a_limit_that_was_met():
  env = _Scripted(2)
  env.reset()
  env.step(np.array([2, 0], np.int32))
  env.reset()
  assert env.step(np.array([1, 0], np.int32)).step_type.tolist() == [FIRST, MID]


def test_episodes_are_counted_without_their_resets():
  env, counter = _Scripted(2), acting.EpisodeCounter(2)
  counter.env_output(env.reset())
  ended = []
  for actions in [0, 0], [2, 1], [0, 2], [2, 3], [0, 0]:
    output = counter.env_output(env.step(np.array(actions, np.int32)))
    ended += [(e, float(output.episode_return[e]), int(output.episode_steps[e]))
              for e in range(2) if output.step_type[e] == FIRST]
  # Environment 1's third reset plays no action 3.
  assert ended == [(1, 1, 2), (0, 2, 2), (1, 2, 1), (0, 2, 1)]
