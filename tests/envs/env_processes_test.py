"""Environments in worker processes: the same games, and no leftovers."""

import functools
import pathlib
import re
import signal
import time

import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.envs import env_processes
from impala_tf.envs import environment
from impala_tf.envs import gym
from impala_tf.runtime import stop_signals
from impala_tf.runtime import user_modules
from tests.fixtures import locks
from tests.fixtures import programs
from tests.fixtures import worker_environments

E = 5


def _faulty(fault, culprit):
  return functools.partial(worker_environments.Faulty, str(fault), culprit)


def _actions(numbers, times):
  """Makes actions that depend on environment and step."""
  return ((3 * numbers + times * (numbers + 1)) % 4 // 2).astype(np.int32)


def _trajectories(pool, num_steps):
  """Collects rows of each environment, `reset` included, [E][num_steps + 1]."""
  rows = [[] for _ in range(pool.num_envs)]
  while min(map(len, rows)) <= num_steps:
    numbers, timestep = pool.recv()
    for i, number in enumerate(numbers):
      rows[number].append([field[i] for field in timestep])  # They stay.
    times = np.array([len(rows[number]) for number in numbers])
    going = times <= num_steps
    pool.send(numbers[going], _actions(numbers[going], times[going]))
  return rows


@pytest.mark.parametrize('num_processes', [1, 2])
def test_each_environment_plays_as_it_does_in_lock_step(
    start_workers, num_processes):
  seed, num_steps = 7, 60
  env = gym.GymEnvironment('CartPole-v1', E, seed)
  expected = [[np.copy(field) for field in env.reset()]]
  for t in range(1, num_steps + 1):
    timestep = env.step(_actions(np.arange(E), np.full(E, t)))
    expected.append([np.copy(field) for field in timestep])
  pool = start_workers(functools.partial(
      worker_environments.gym_game, 'CartPole-v1', seed), E, num_processes)
  rows = _trajectories(pool, num_steps)
  ends = 0
  for number in range(E):
    for row, wanted in zip(rows[number], expected):
      for field, value in zip(row, wanted):
        np.testing.assert_array_equal(field, value[number])
        assert field.dtype == value.dtype
      ends += wanted[0][number] == worker_environments.FIRST
  assert ends > 2 * E  # Episodes have ended, too.


def test_side_channels_are_those_of_each_environment_beyond_ends(start_workers):
  make = functools.partial(
      worker_environments.gym_game, f'{locks.MODULE}:Locks-v0', 3)
  pool = start_workers(make, E, 2)
  assert pool.side_channel_specs() == make(0).side_channel_specs()
  alone = [make(i) for i in range(E)]
  rows = [env.reset() for env in alone]
  for _ in range(2 * locks.NUM_STEPS + 1):
    numbers, timestep = pool.recv(min_ready=E)
    assert sorted(numbers) == list(range(E))
    for i, number in enumerate(numbers):
      np.testing.assert_array_equal(
          timestep.observation[i], rows[number].observation[0])
      for channel, wanted in zip(
          pool.side_channels, alone[number].side_channels):
        if len(wanted):
          np.testing.assert_array_equal(channel[i], wanted[0])
    actions = [locks.legal_actions(env.action_mask) for env in alone]
    pool.send(numbers, np.concatenate(actions)[numbers])
    rows = [env.step(action) for env, action in zip(alone, actions)]


def test_workers_are_processes_without_tensorflow(start_workers):
  make = functools.partial(worker_environments.Introspective, 1)
  numbers, timestep = start_workers(make, E, 3).recv(min_ready=E)
  assert not timestep.discount.any()
  pids = dict(zip(numbers.tolist(), timestep.reward.astype(int).tolist()))
  assert set(pids.values()) <= set(programs.children('spawn_main'))
  assert pids[0] == pids[3] and pids[1] == pids[4]
  assert len(set(pids.values())) == 3


def _play(pool, until):
  """Plays until `until` is true of the numbers of rows, which it returns."""
  num_rows = np.zeros(pool.num_envs, int)
  while not until(num_rows):
    numbers, _ = pool.recv()
    num_rows[numbers] += 1
    pool.send(numbers, np.zeros(len(numbers), np.int32))
  return num_rows


def _never(num_rows):
  del num_rows
  return False


def test_slow_environment_holds_up_its_process_only(start_workers, tmp_path):
  gate = tmp_path / 'gate'
  pool = start_workers(_faulty(gate, culprit=3), 4)
  num_rows = _play(pool, lambda n: n[[0, 2]].min() == 50)
  # That of `reset` and two more. Environment 1 shares its process.
  assert num_rows[3] <= 3 and num_rows[1] < 10
  gate.touch()
  _play(pool, lambda n: n.min() == 10)


@pytest.mark.parametrize('fault, error, words', [
    ('fail', env_processes.WorkerError,
     r'environment 1 \(ticking\): RuntimeError: the simulator has crashed'),
    ('refuse', config_lib.UserError,
     r'environment 1 \(ticking\): there is no such map'),
    ('breakpoint', config_lib.UserError,
     r'environment 1 \(ticking\): breakpoint\(\) needs a terminal, which a '
     r'child process lacks; train with ExperimentConfig.in_process = True .*'),
    ('exit', env_processes.WorkerError,
     r'environment 1 \(ticking\): its process ended with exit code 3')])
def test_fault_is_a_line_that_names_the_environment(
    start_workers, fault, error, words):
  # Number 3 is made after it.
  pool = start_workers(_faulty(fault, culprit=1), E)
  with pytest.raises(error) as caught:
    _play(pool, _never)
  assert type(caught.value) is error
  assert re.fullmatch(words, str(caught.value))


def test_environment_that_cannot_be_made_is_named():
  make = functools.partial(worker_environments.never_there, 4)
  with pytest.raises(config_lib.UserError,
                     match=r'environment 4 \(ticking\): there is no such map'):
    env_processes.Workers(make, E, 2, timeout_secs=60.)
  assert not programs.children('spawn_main')


def test_killed_worker_is_named_and_others_are_closed(start_workers, tmp_path):
  pool = start_workers(_faulty(tmp_path / 'gate', culprit=1), E, E)
  # Environment 1 is within its third step then.
  _play(pool, lambda n: n[1] == 3 and n[0] > 10)
  assert len(programs.children('spawn_main')) == E
  programs.kill(programs.children('spawn_main')[1])
  with pytest.raises(env_processes.WorkerError, match=(
      r'environment 1 \(ticking\): its process was killed by SIGKILL')):
    _play(pool, _never)
  pool.close()
  assert not programs.children('spawn_main')


def test_hanging_step_has_a_deadline_though_others_play_on(start_workers):
  pool = start_workers(_faulty('hang', culprit=4), E)
  pool.timeout_secs = 2.
  with pytest.raises(env_processes.WorkerError, match=(
      r'environment 4 \(ticking\) has not answered for 2 s.*'
      'raise ActorConfig.env_timeout_secs')):
    _play(pool, _never)


def test_numbers_are_those_of_the_run_and_each_is_said_once(start_workers):
  with environment.numbered(range(8, 8 + E)):
    pool = start_workers(worker_environments.ticking, E)
  pool.recv(min_ready=E)
  pool.send(np.array([2], np.int32), np.array([9], np.int32))
  with pytest.raises(config_lib.UserError, match=(
      r'^environment 10 \(ticking\): ticking: action 9 of the environment')):
    pool.recv()


def test_time_without_anything_to_do_is_no_hang(start_workers):
  pool = start_workers(worker_environments.ticking, E)
  pool.recv(min_ready=E)
  began = time.monotonic()
  while time.monotonic() < began + 2:
    pool.send(np.array([0], np.int32), np.zeros(1, np.int32))
    if time.monotonic() > began + 1:
      pool.timeout_secs = 1.  # All others have been idle for longer.
    pool.recv()


@pytest.mark.parametrize('fault', [None, 'fail'])
def test_environments_may_have_processes_and_all_are_closed(
    start_workers, tmp_path, fault):
  pool = start_workers(functools.partial(
      worker_environments.Parental, tmp_path, fault, 0), 3)
  pool.recv(min_ready=3)
  children = [int(path.read_text()) for path in tmp_path.iterdir()]
  assert len(children) == 3 and all(map(programs.is_alive, children))
  if fault:  # Environment 2 shares its process.
    with pytest.raises(env_processes.WorkerError):
      for _ in range(3):
        pool.send(np.array([0], np.int32), np.zeros(1, np.int32))
        pool.recv()
  pool.close()
  assert not list(tmp_path.iterdir())
  assert not any(map(programs.is_alive, children))


def test_stop_before_a_context_has_them_lets_them_close(
    start_workers, tmp_path):
  with pytest.raises(KeyboardInterrupt), stop_signals.interrupting():
    start_workers(functools.partial(
        worker_environments.Parental, tmp_path, None, 0), 3).recv(min_ready=3)
    signal.raise_signal(signal.SIGTERM)
  assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_each_environment_has_the_time_to_be_made(start_workers):
  make = functools.partial(worker_environments.slow, 3.)
  pool = start_workers(make, 4, 1, timeout_secs=8.)
  assert len(pool.recv(min_ready=4)[0]) == 4


@pytest.mark.usefixtures('modules_forgotten')
def test_workers_import_the_modules_of_the_users_own(start_workers, tmp_path):
  path = tmp_path / 'my_levels.py'
  path.write_text("""
import gymnasium
gymnasium.register('Mine-v0', 'gymnasium.envs.classic_control:CartPoleEnv')
""")
  user_modules.load([str(path)])
  make = functools.partial(worker_environments.gym_game, 'Mine-v0', 0)
  assert start_workers(make, 1, 1).recv()[0].tolist() == [0]
  path.write_text('1 / 0')
  with pytest.raises(config_lib.UserError, match='my_levels.py, line 1: Zero'):
    start_workers(make, 1, 1)


_PROGRAM = """
import functools, sys
import numpy as np
from impala_tf.envs import env_processes
from tests.fixtures import worker_environments as envs

if __name__ == '__main__':
  make = functools.partial(envs.Faulty, sys.argv[1], 0)
  pool = env_processes.Workers(make, 3, 3, 60.)
  for _ in range(int(sys.argv[2])):
    numbers, _ = pool.recv()
    pool.send(numbers, np.zeros(len(numbers), np.int32))
  print('played', flush=True)
  if sys.argv[3] == 'stay':
    sys.stdin.read()
"""


def _program(tmp_path, what):
  path = tmp_path / 'program.py'
  path.write_text(_PROGRAM)
  return programs.running(path, tmp_path / 'gate', 100, what,
                          stdin=programs.PIPE)


def test_nothing_is_left_of_an_actor_that_is_killed(tmp_path):
  with _program(tmp_path, 'stay') as process:
    assert process.stdout.readline() == 'played\n'
    children = programs.children('', [process.pid])
    assert len(children) >= 3  # One of them within a step that never ends.
    memory = {line.split(maxsplit=5)[5] for line in pathlib.Path(
        f'/proc/{process.pid}/maps').read_text().splitlines()
              if '/dev/shm/' in line}
    assert memory and all(name.endswith(' (deleted)') for name in memory)
    programs.kill(process.pid)
    programs.wait_until(lambda: not any(map(programs.is_alive, children)),
                        'the end of all workers')
  assert not list(pathlib.Path('/dev/shm').glob(f'*{process.pid}*'))


def test_program_that_forgets_to_close_ends_all_the_same(tmp_path):
  with _program(tmp_path, 'leave') as process:
    _, errors = process.communicate(timeout=programs.DEADLINE_SECS)
  assert process.returncode == 0
  assert not errors
