"""Runs from Python: here and in processes, stopped, resumed, refused."""

from concurrent import futures
import os
import re
import signal

import psutil
import pytest

import impala_tf
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from tests.fixtures import hosts
from tests.fixtures import programs

_FRAMES = 40  # An update.
_BINDINGS = {
    'LearnerConfig.batch_size': 8, 'LearnerConfig.unroll_length': 5,
    'ActorConfig.num_actors': 1, 'ActorConfig.num_envs': 4,
    'ExperimentConfig.log_interval_secs': 0.2}


def _train(run_dir, num_updates=5, bindings=(), **options):
  frames = {'ExperimentConfig.total_frames': num_updates * _FRAMES}
  return impala_tf.train(
      programs.ROOT / 'configs/catch.gin', str(run_dir),
      bindings={**_BINDINGS, **frames, **dict(bindings)}, **options)


def test_callback_hears_of_each_update_and_a_run_is_resumed(tmp_path):
  callback = hosts.Updates()
  result = _train(tmp_path / 'run', in_process=True, callbacks=[callback])
  assert callback.pids == {os.getpid()}
  assert [u.updates for u in callback.updates] == [1, 2, 3, 4, 5]
  assert [u.frames for u in callback.updates] == [40, 80, 120, 160, 200]
  assert all('loss/total' in u.metrics for u in callback.updates)
  row = metrics.read_rows(str(tmp_path / 'run'))[-1]
  assert result == (str(tmp_path / 'run'), 200, 5, row['episode_return'], None)
  assert run_directory.newest_checkpoint(result.run_dir) == 5

  callback = hosts.Updates()
  with pytest.raises(impala_tf.UserError, match=r'total_frames \(200, now 280'):
    _train(tmp_path / 'run', 7, in_process=True)
  result = _train(tmp_path / 'run', 7, in_process=True, callbacks=[callback],
                  allow_changes=True)
  assert [u.updates for u in callback.updates] == [6, 7]
  assert (result.frames, result.updates) == (280, 7)


def test_run_stays_where_it_is_if_its_process_goes_elsewhere(
    tmp_path, monkeypatch):

  class Leaving:
    def after_update(self, update):
      os.chdir('/')

  monkeypatch.chdir(tmp_path)
  result = _train('run', in_process=True, callbacks=[Leaving()])
  assert result.updates == 5 and os.getcwd() == str(tmp_path)
  assert run_directory.newest_checkpoint(str(tmp_path / 'run')) == 5


def test_error_of_a_callback_saves_and_goes_on(tmp_path):

  class Broken:
    def after_update(self, update):
      if update.updates == 3:
        raise RuntimeError('mine')

  handler = signal.getsignal(signal.SIGINT)
  with pytest.raises(RuntimeError, match='mine'):
    _train(tmp_path, in_process=True, callbacks=[Broken()])
  assert run_directory.newest_checkpoint(str(tmp_path)) == 3
  assert signal.getsignal(signal.SIGINT) is handler


def test_run_in_a_thread_handles_no_signals(tmp_path):
  callback = hosts.Updates(limit=2)
  with futures.ThreadPoolExecutor() as pool:
    pool.submit(
        _train, tmp_path, in_process=True, callbacks=[callback]).result()
  assert len(callback.updates) == 2
  assert run_directory.newest_checkpoint(str(tmp_path)) == 2


@pytest.mark.parametrize('bindings', [
    {}, {'ExperimentConfig.algorithm': 'a3c',
         'ImpalaConfig.correction': 'none', 'AsyncConfig.num_workers': 4}],
                         ids=['impala', 'a3c'])
@pytest.mark.slow
def test_run_is_done_once_its_return_is_reached(tmp_path, bindings, capsys):
  bindings = {**bindings, 'ExperimentConfig.stop_at_return': -1.}
  callback = hosts.Updates()
  result = _train(tmp_path, 10_000, bindings, in_process=True,
                  callbacks=[callback])
  *before, last = [u.episode_return for u in callback.updates]
  assert set(before) == {None} and last >= -1
  assert result.updates < 1000
  assert run_directory.newest_checkpoint(str(tmp_path)) == result.updates
  # It stays done.
  assert _train(tmp_path, 10_000, bindings, in_process=True) == result
  assert 'stop_at_return was reached; raise it' in capsys.readouterr().err


@pytest.mark.parametrize('options, words', [
    ({'bindings': {'LernerConfig.batch_size': 8}}, 'no section LernerConfig'),
    ({'bindings': {'LearnerConfig.num_learners': 2}}, 'num_learners is 2'),
    ({'bindings': {'ActorConfig.env_processes': 2}, 'in_process': True},
     'leave one of them out')])
def test_bad_value_is_refused_and_nothing_is_made(tmp_path, options, words):
  with pytest.raises(impala_tf.ConfigError, match=words):
    _train(tmp_path / 'run', **options)
  assert not any(tmp_path.iterdir())


def test_config_of_python_takes_bindings_too(tmp_path):
  config = impala_tf.Config(
      environment=impala_tf.EnvironmentConfig(level='catch'),
      agent=impala_tf.AgentConfig(torso='mlp', hidden_size=4),
      learner=impala_tf.LearnerConfig(batch_size=3))
  result = impala_tf.train(
      config, tmp_path, in_process=True, bindings={
          **_BINDINGS, 'ExperimentConfig.total_frames': 80})
  assert (result.frames, result.updates) == (80, 2)


@pytest.mark.slow
def test_callback_ends_a_run_of_processes(tmp_path):
  callback = hosts.Updates(limit=3)
  before = psutil.Process().children()
  result = _train(tmp_path / 'run', 10_000, callbacks=[callback])
  assert (result.frames, result.updates) == (120, 3)
  assert run_directory.newest_checkpoint(result.run_dir) == 3
  assert callback.pids == {os.getpid()}
  assert not programs.pids('actor', f'--run_dir={result.run_dir}')
  assert set(psutil.Process().children()) <= set(before)


_SCRIPT = """
import sys

import gymnasium
import impala_tf
from gymnasium import spaces
import numpy as np

class Mine(gymnasium.Env):
  observation_space = spaces.Box(0, 1, (2,), np.float32)
  action_space = spaces.Discrete(2)
  def __init__(self, render_mode=None):
    self.render_mode = render_mode
  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    return np.zeros(2, np.float32), {}
  def step(self, action):
    return np.zeros(2, np.float32), 1., True, False, {}

gymnasium.register('Mine-v0', Mine)

def main():
  result = impala_tf.train('configs/cartpole.gin', RUN_DIR, bindings=BINDINGS)
  print('FRAMES', result.frames)
"""


def _program(run_dir, start):
  bindings = {**_BINDINGS, 'EnvironmentConfig.level': 'gym/Mine-v0',
              'ExperimentConfig.total_frames': 80}
  return (f'{_SCRIPT}\nRUN_DIR = {str(run_dir)!r}\nBINDINGS = {bindings!r}\n'
          f'{start}\n')


@pytest.mark.slow
def test_script_trains_on_what_it_has_registered(tmp_path):
  script = tmp_path / 'mine.py'
  script.write_text(_program(
      tmp_path / 'run', "if __name__ == '__main__':\n  main()"))
  ran = programs.python(script, timeout=300, check=True)
  assert ran.stdout.splitlines()[-1] == 'FRAMES 80'


@pytest.mark.slow
@pytest.mark.parametrize('is_file, words', [
    (True, 'Error: .*/mine.py, which calls impala_tf.train at once; put .* if'),
    (False, 'Error: the environment gym/Mine-v0 was registered in a notebook, '
     'by python -c .* put that into a .py file .* train with in_process')])
def test_what_children_cannot_import_is_refused(tmp_path, is_file, words):
  start = _program(tmp_path / 'run', 'main()')
  script = tmp_path / 'mine.py'
  script.write_text(start)
  ran = programs.python(*([script] if is_file else ['-c', start]))
  assert ran.returncode == 1
  assert re.search(words, ran.stderr), ran.stderr
  assert not (tmp_path / 'run').exists()


_ENDLESS = """
import signal
import sys
import impala_tf

class Say:
  def after_update(self, update):
    print('UPDATE', update.updates, flush=True)

if len(sys.argv) == 3:
  signal.signal(signal.SIGINT, lambda *unused: print('HANDLED'))
try:
  impala_tf.train(
      'configs/catch.gin', sys.argv[1], in_process=True, callbacks=[Say()],
      bindings={'LearnerConfig.unroll_length': 5, 'ActorConfig.num_envs': 4})
except KeyboardInterrupt:
  print('INTERRUPTED')
"""


@pytest.mark.slow
@pytest.mark.parametrize('own_handler', [(), ('HANDLED',)])
def test_interrupt_saves_and_goes_on(tmp_path, own_handler):
  with programs.running('-c', _ENDLESS, tmp_path, *own_handler) as process:
    while not process.stdout.readline().startswith('UPDATE 3'):
      pass
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=programs.DEADLINE_SECS)
  assert process.returncode == 0, errors
  lines = output.splitlines()
  assert lines[-1 - len(own_handler):] == [*own_handler, 'INTERRUPTED']
  updates = [int(x.split()[1]) for x in lines if x.startswith('UPDATE')]
  saved = run_directory.newest_checkpoint(str(tmp_path))
  assert saved >= 3 and (not updates or saved == updates[-1])
  assert f"run_dir='{tmp_path}' resumes" in lines[-2 - len(own_handler)]
