"""Programs run so many at a time, and none stays behind."""

import os
import pathlib
import signal
import sys
import time

import pytest

from launch import local_engine
from tests import programs

_PROGRAM = """
import os, pathlib, signal, sys, time
mode, directory = sys.argv[1:]
started = time.monotonic()
if mode == 'stubborn':
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(directory, f'pid_{os.getpid()}').touch()
if mode == 'bad':
  sys.exit('error: it was bad')
if mode == 'after_2':  # Two have been started.
  while len(list(pathlib.Path(directory).glob('pid_*'))) < 2:
    time.sleep(0.05)
  mode = 'short'
time.sleep(0.5 if mode == 'short' else 600)
pathlib.Path(directory, f'times_{os.getpid()}').write_text(
    f'{started} {time.monotonic()} {os.environ["MY_VARIABLE"]}')
"""


@pytest.fixture(name='start')
def _start(tmp_path, monkeypatch):
  (tmp_path / 'my_program.py').write_text(_PROGRAM)
  monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(tmp_path), *sys.path]))

  def start(modes, num_jobs, on_end=lambda name, ended: None):
    with open(tmp_path / 'lock', 'wb') as lock:
      engine = local_engine.LocalEngine(
          num_jobs, str(tmp_path / 'logs'), {'MY_VARIABLE': 'mine'},
          lock.fileno())
      ends = {}

      def note(name, ended):
        ends[name] = ended
        on_end(name, ended)

      signum = engine.run(
          {f'{mode}/{i}': ['my_program', mode, str(tmp_path)]
           for i, mode in enumerate(modes)}, note)
    return signum, ends

  return start


def _pids(directory):
  return [int(p.name[len('pid_'):]) for p in directory.glob('pid_*')]


def test_so_many_run_at_a_time(start, tmp_path):
  modes = ['after_2'] * 2 + ['short'] * 3  # Two that wait for each other.
  signum, ends = start(modes, num_jobs=2)
  assert signum is None
  assert set(ends.values()) == {local_engine.Ended(0, False, '')}
  texts = [p.read_text().split() for p in tmp_path.glob('times_*')]
  assert len(texts) == 5 and {text[2] for text in texts} == {'mine'}
  times = [(float(start), float(end)) for start, end, _ in texts]
  at_once = [sum(a <= start < b for a, b in times) for start, _ in times]
  assert max(at_once) == 2


def test_failure_is_told_in_one_line_and_the_others_go_on(start, tmp_path):
  signum, ends = start(['bad', 'short'], num_jobs=1)
  assert signum is None
  assert ends == {
      'bad/0': local_engine.Ended(
          1, False, 'ended with exit code 1: it was bad'),
      'short/1': local_engine.Ended(0, False, '')}
  assert 'it was bad' in (tmp_path / 'logs' / 'bad' / '0.log').read_text()


def test_program_holds_the_lock_and_may_be_stopped_by_others(start, tmp_path):
  held = []

  def stop_long(name, unused_ended):
    if name == 'short/0':
      pid, = programs.pids('long', str(tmp_path))
      held.extend(os.readlink(path) for path in
                  pathlib.Path(f'/proc/{pid}/fd').iterdir())
      os.kill(pid, signal.SIGTERM)

  signum, ends = start(['short', 'long'], num_jobs=2, on_end=stop_long)
  assert signum is None
  assert str(tmp_path / 'lock') in held
  assert ends['long/1'].was_stopped and not ends['short/0'].was_stopped


def test_signal_ends_all_even_those_that_do_not_listen(
    start, tmp_path, monkeypatch):
  monkeypatch.setattr(local_engine, '_STOP_SECS', 1.)
  before = signal.getsignal(signal.SIGINT)
  stopped = []

  def press_ctrl_c(unused_name, unused_ended):
    if not stopped:
      programs.wait_until(lambda: len(_pids(tmp_path)) == 3, 'all')
      stopped.append(time.monotonic())
      os.kill(os.getpid(), signal.SIGINT)

  modes = ['short', 'stubborn', 'long', 'never_started']
  signum, ends = start(modes, num_jobs=3, on_end=press_ctrl_c)
  assert time.monotonic() - stopped[0] < 10
  assert signum == signal.SIGINT
  assert ends.keys() == {'short/0', 'stubborn/1', 'long/2'}
  assert ends['stubborn/1'].exit_code == -signal.SIGKILL
  assert ends['stubborn/1'].was_stopped and ends['long/2'].was_stopped
  assert not any(map(programs.is_alive, _pids(tmp_path)))
  assert signal.getsignal(signal.SIGINT) == before
