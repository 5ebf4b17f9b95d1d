"""Simulators in turn: rows of ends, on a simulator that plays a script."""

import dm_env
from dm_env import specs
import numpy as np
import pytest

from impala_tf import config
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


class _Failing(_Scripted):
  """An environment that raises `error` for action 3, and is made anew."""
  error: BaseException = RuntimeError('simulator\nlost')

  def _advance(self, i, action):
    if action == 3:
      raise self.error
    return super()._advance(i, action)

  def _remake(self, i, error):
    self._places[i] = [100, 0]


def _stepped(env, *actions):
  return env.step(np.array(actions, np.int32))


def test_rare_failure_costs_the_episode_of_its_simulator_alone():
  env, counter = _Failing(2), acting.EpisodeCounter(2)
  counter.env_output(env.reset())
  for _ in range(550):
    counter.env_output(_stepped(env, 0, 0))
  for _ in range(3):  # At step 100 and each 500 after it, of both together.
    counter.env_output(_stepped(env, 0, 1))
    output = counter.env_output(_stepped(env, 0, 3))
    assert output.step_type.tolist() == [MID, FIRST]
    assert output.discount.tolist() == [1, 1] and output.reward[1] == 0
    assert output.observation[1].tolist() == [101, 0]
    assert output.episode_steps[1] == 0 and output.episode_steps[0] > 550
  assert counter.env_output(_stepped(env, 0, 0)).episode_steps[1] == 1


def test_failure_while_a_limit_resets_loses_no_episode():
  env, counter = _Failing(1), acting.EpisodeCounter(1)
  counter.env_output(env.reset())
  for _ in range(100):
    counter.env_output(_stepped(env, 0))
  counter.env_output(_stepped(env, 2))
  begin = env._begin

  def fail(i):
    env._begin = begin
    raise OSError('gone')

  env._begin = fail
  output = counter.env_output(_stepped(env, 0))
  assert (output.step_type[0], output.episode_steps[0]) == (FIRST, 101)


def test_frequent_failures_are_a_mistake():
  env = _Failing(2)
  env.reset()
  with pytest.raises(environment.SimulatorError, match='environment 1 '):
    _stepped(env, 0, 3)  # At once.
  env = _Failing(2)
  env.reset()
  for _ in range(50):
    _stepped(env, 0, 0)
  _stepped(env, 0, 3)
  with pytest.raises(environment.SimulatorError, match=(
      '^scripted: environment 0 failed: .*serial_test.py, line [0-9]+: '
      'RuntimeError: simulator lost$')):
    _stepped(env, 3, 0)


@pytest.mark.parametrize('error, words', [
    (ConnectionRefusedError(111, 'Connection refused'),
     r'ConnectionRefusedError: \[Errno 111\] Connection refused'),
    (SystemExit(), 'SystemExit: raise self.error'),  # Its message is empty.
    (AssertionError(), 'AssertionError: raise self.error'),
    (np.ndarray, 'TypeError: ')])
def test_failure_of_any_kind_is_the_simulators(error, words, monkeypatch):
  monkeypatch.setattr(_Failing, 'error', error)
  monkeypatch.setattr(_Failing, '_remake', serial.SerialEnvironment._remake)
  env = _Failing(1)
  env.reset()
  with pytest.raises(environment.SimulatorError, match=(
      f'^scripted: the environment failed: .*, line [0-9]+: {words}')):
    _stepped(env, 3)


@pytest.mark.parametrize('error', [
    KeyboardInterrupt(), config.UserError('no such map')])
def test_interrupts_and_errors_of_the_user_pass(error, monkeypatch):
  monkeypatch.setattr(_Failing, 'error', error)
  env = _Failing(1)
  env.reset()
  with pytest.raises(type(error)) as raised:
    _stepped(env, 3)
  assert raised.value is error


def test_simulator_that_cannot_be_made_anew_is_not_the_users_mistake(
    monkeypatch):
  def refuse(self, i, error):
    raise config.ConfigError('the port is taken')

  monkeypatch.setattr(_Failing, '_remake', refuse)
  env = _Failing(1)
  env.reset()
  for _ in range(100):
    _stepped(env, 0)
  with pytest.raises(environment.SimulatorError, match=(
      'simulator lost; the port is taken$')):
    _stepped(env, 3)
