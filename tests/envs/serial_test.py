"""Simulators in turn: rows of ends and failures, by a script."""

import bdb
import signal

import dm_env
from dm_env import specs
import numpy as np
import pytest

from impala_tf import config
from impala_tf.agents import acting
from impala_tf.envs import environment
from impala_tf.envs import serial
from impala_tf.runtime import stop_signals

FIRST, MID, LAST = dm_env.StepType


class _Simulator:
  """A simulator that knows its episode and step, and may refuse to begin."""

  def __init__(self, episode):
    self.place = np.array([episode, 0], np.float32)
    self.begin_error = None
    self.is_closed = False

  def close(self):
    self.is_closed = True
    raise OSError('it is gone')


class _Scripted(serial.SerialEnvironment):
  """An environment whose observation is (episode, step) and reward its action.

  An action of 1 terminates, 2 truncates, 3 does both, and 4 raises an error.
  Simulators that are made anew begin with episode 100.
  """

  def __init__(self, num_envs, error=None, remake_error=None):
    self.made, self.seeds = [], []
    self._error = error or RuntimeError('simulator\nlost')

    def make(i, seed):
      if len(self.made) >= num_envs and remake_error:
        raise remake_error
      self.seeds.append(seed)
      self.made.append(_Simulator(100 if len(self.made) >= num_envs else 0))
      return self.made[-1]

    super().__init__('scripted', serial.Simulators(make, num_envs, 7),
                     environment.discrete(5),
                     specs.Array((2,), np.float32, 'observation'))

  def _begin(self, i):
    simulator = self._simulators[i]
    if simulator.begin_error:
      raise simulator.begin_error
    simulator.place[:] = simulator.place[0] + 1, 0
    return simulator.place

  def _advance(self, i, action):
    if action == 4:
      raise self._error
    place = self._simulators[i].place
    place[1] += 1
    return serial.Transition(
        place, float(action), action in (1, 3), action in (2, 3))

  def render(self):
    raise NotImplementedError


def _begun(*arguments, **options):
  env = _Scripted(*arguments, **options)
  env.reset()
  return env


def _stepped(env, *actions):
  return env.step(np.array(actions, np.int32))


def _played(*actions):
  """Plays one environment; returns (observation, type, reward, discount)."""
  env = _begun(1)
  rows = (_stepped(env, action) for action in actions)
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
  env = _begun(2)
  _stepped(env, 2, 0)
  env.reset()
  assert _stepped(env, 1, 0).step_type.tolist() == [FIRST, MID]


def test_episodes_are_counted_without_their_resets():
  env, counter = _Scripted(2), acting.EpisodeCounter(2)
  counter.env_output(env.reset())
  ended = []
  for actions in [0, 0], [2, 1], [0, 2], [2, 3], [0, 0]:
    output = counter.env_output(_stepped(env, *actions))
    ended += [(e, float(output.episode_return[e]), int(output.episode_steps[e]))
              for e in range(2) if output.step_type[e] == FIRST]
  # Environment 1's third reset plays no action 3.
  assert ended == [(1, 1, 2), (0, 2, 2), (1, 2, 1), (0, 2, 1)]


def test_rare_failure_costs_the_episode_of_its_simulator_alone(capsys):
  env, counter = _Scripted(2), acting.EpisodeCounter(2)
  counter.env_output(env.reset())
  for _ in range(550):
    counter.env_output(_stepped(env, 0, 0))
  for _ in range(3):  # At step 100 and each 500 after it, of both together.
    counter.env_output(_stepped(env, 0, 1))
    output = counter.env_output(_stepped(env, 0, 4))
    assert output.step_type.tolist() == [MID, FIRST]
    assert output.discount.tolist() == [1, 1] and output.reward[1] == 0
    assert output.observation[1].tolist() == [101, 0]
    assert output.episode_steps[1] == 0 and output.episode_steps[0] > 550
  assert counter.env_output(_stepped(env, 0, 0)).episode_steps[1] == 1
  assert capsys.readouterr().err.count('note: ') == 1  # Of the first failure.
  # Simulator 1 was closed each time, and each new one has another seed.
  assert [s.is_closed for s in env.made] == [False, True, True, True, False]
  assert env.seeds[:2] == [7, 8] and len(set(env.seeds)) == 5
  env.close()  # All of them, though each fails.
  assert all(simulator.is_closed for simulator in env.made)


def test_failure_while_a_limit_resets_loses_no_episode():
  env, counter = _Scripted(1), acting.EpisodeCounter(1)
  counter.env_output(env.reset())
  for _ in range(100):
    counter.env_output(_stepped(env, 0))
  counter.env_output(_stepped(env, 2))
  env.made[0].begin_error = OSError('gone')
  output = counter.env_output(_stepped(env, 0))
  assert (output.step_type[0], output.episode_steps[0]) == (FIRST, 101)


def test_frequent_failures_are_a_mistake():
  with pytest.raises(environment.SimulatorError, match='environment 1 '):
    _stepped(_begun(2), 0, 4)  # At once.
  with environment.numbered(range(8, 10)):  # Of the run.
    env = _begun(2)
  for _ in range(50):
    _stepped(env, 0, 0)
  _stepped(env, 0, 4)
  with pytest.raises(environment.SimulatorError, match=(
      r'^scripted: environment 8 \(step 52\) failed: .*, line [0-9]+: '
      'RuntimeError: simulator lost$')):
    _stepped(env, 4, 0)


@pytest.mark.parametrize('error, words', [
    (ConnectionRefusedError(111, 'Connection refused'),
     r'ConnectionRefusedError: \[Errno 111\] Connection refused'),
    (SystemExit(), 'SystemExit: raise self._error'),  # Its message is empty.
    (StopIteration(), 'StopIteration: '), (np.ndarray, 'TypeError: ')])
def test_failure_of_any_kind_is_the_simulators(error, words):
  with pytest.raises(environment.SimulatorError, match=(
      f'^scripted: the environment .* failed: .*, line [0-9]+: {words}')):
    _stepped(_begun(1, error), 4)


@pytest.mark.parametrize('error', [
    KeyboardInterrupt(), config.UserError('no such map')])
def test_interrupts_and_errors_of_the_user_pass(error):
  with pytest.raises(type(error)) as raised:
    _stepped(_begun(1, error), 4)
  assert raised.value is error


def test_quitting_at_a_breakpoint_is_an_interrupt():
  with pytest.raises(KeyboardInterrupt):
    _stepped(_begun(1, bdb.BdbQuit()), 4)


def test_simulator_that_cannot_be_made_anew_is_not_the_users_mistake():
  env = _begun(1, remake_error=config.ConfigError('the port is taken'))
  for _ in range(100):
    _stepped(env, 0)
  with pytest.raises(environment.SimulatorError, match=(
      'simulator lost; the port is taken$')):
    _stepped(env, 4)


def test_simulators_are_closed_if_one_cannot_be_made():
  made = []

  def make(i, seed):
    made.append(_Simulator(0))
    if i == 2:
      raise config.ConfigError('no licence')
    return made[-1]

  with pytest.raises(config.ConfigError, match='no licence'):
    serial.Simulators(make, 3, 0)
  assert [simulator.is_closed for simulator in made] == [True, True, False]


@pytest.mark.parametrize('stopped_at, num_made', [(1, 2), (3, 3)])
def test_stop_waits_for_a_simulator_being_made_and_all_are_closed(
    stopped_at, num_made):
  made = []

  def stop(now):
    if now == stopped_at:
      signal.raise_signal(signal.SIGTERM)

  def make(i, seed):
    stop(i)
    made.append(_Simulator(0))
    return made[-1]

  with pytest.raises(KeyboardInterrupt), stop_signals.interrupting():
    serial.Simulators(make, 3, 0)
    stop(3)  # Before a context of the caller's has begun.
  assert [simulator.is_closed for simulator in made] == [True] * num_made
