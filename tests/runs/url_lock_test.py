"""Tests that a directory behind a URL has one owner, and none that is dead."""

import contextlib
import json
import signal
import subprocess
import threading
import time

import pytest

from impala_tf.runs import url_lock
from impala_tf.storage import files
from tests.fixtures import programs

pytestmark = pytest.mark.timeout(400)
_DEADLINE_SECS = 300.  # To import TensorFlow on a machine with much to do.


@pytest.fixture(name='path')
def _path(tmp_path, monkeypatch):
  """Returns a path that no other process uses, so that tests need not wait."""
  monkeypatch.setattr(url_lock, '_SETTLE_SECS', 0.)
  files.make_directory(f'ram:/{tmp_path}')
  return f'ram:/{tmp_path}/.lock'


def _refused(path, words):
  with pytest.raises(url_lock.OwnedError, match=words) as raised:
    with url_lock.owning(path):
      pytest.fail('it was let in')
  assert '\n' not in str(raised.value)


def _write(path, **changes):
  """Writes an owner's file; by default it is alive, on another machine."""
  files.write(path, json.dumps({
      'host': 'beta', 'machine': 'another', 'pid': 7, 'start_ticks': 1,
      'token': 'a', 'secs': time.time(), **changes}).encode())


def test_two_at_a_time_are_refused_and_two_in_turn_are_not(path):
  for _ in range(2):
    with url_lock.owning(path):
      _refused(path, r'process \d+ on')
    assert not files.exists(path)


def test_owner_is_gone_after_an_error(path):
  with pytest.raises(ZeroDivisionError):
    with url_lock.owning(path):
      raise ZeroDivisionError
  assert not files.exists(path)


def test_owner_on_another_machine_is_believed_for_a_minute(path):
  _write(path)
  _refused(path, r'process 7 on beta, which said so \d s ago')
  _write(path, secs=time.time() - 50)
  _refused(path, '5. s ago')
  _write(path, secs=time.time() - 61)
  with url_lock.owning(path):
    assert json.loads(files.read(path))['host'] != 'beta'


@pytest.mark.parametrize('text', [
    '', 'nonsense', '[]', '3', '{"pid": 3, "secs": 1}',
    '{"pid": "self/../1", "secs": 1}', '{"pid": 1, "secs": []}'])
def test_file_that_names_nobody_keeps_nobody_out(path, text):
  files.write(path, text.encode())
  with url_lock.owning(path):
    assert json.loads(files.read(path))['pid']


def test_it_says_so_again_and_again(path, monkeypatch):
  monkeypatch.setattr(url_lock, '_BEAT_SECS', 0.05)

  def secs():
    return json.loads(files.read(path))['secs']

  with url_lock.owning(path):
    first = secs()
    programs.wait_until(lambda: secs() > first, 'a beat')


def test_store_that_fails_for_a_while_ends_nothing(path, monkeypatch):
  monkeypatch.setattr(url_lock, '_BEAT_SECS', 0.05)
  warnings = []
  monkeypatch.setattr(url_lock.logging, 'warning',
                      lambda text, *args: warnings.append(text % args))

  def fail(*unused):
    raise files.RemoteError(5, 'just now there is no bucket')

  with url_lock.owning(path):
    with monkeypatch.context() as patch:
      patch.setattr(files, 'write', fail)
      programs.wait_until(lambda: len(warnings) > 2, 'warnings')
    before = files.read(path)
    programs.wait_until(lambda: files.read(path) != before, 'a beat')


def test_of_many_who_come_at_once_one_is_let_in(path, monkeypatch):
  monkeypatch.setattr(url_lock, '_SETTLE_SECS', 1.)
  barrier = threading.Barrier(8)
  is_over = threading.Event()
  outcomes = []
  write = url_lock._write

  def write_when_all_have_looked(*arguments):
    barrier.wait(60.)
    write(*arguments)

  monkeypatch.setattr(url_lock, '_write', write_when_all_have_looked)

  def come():
    try:
      with url_lock.owning(path):
        outcomes.append('in')
        is_over.wait(60.)
    except url_lock.OwnedError:
      outcomes.append('out')

  threads = [threading.Thread(target=come) for _ in range(8)]
  for thread in threads:
    thread.start()
  programs.wait_until(lambda: len(outcomes) == 8, 'all')
  is_over.set()
  for thread in threads:
    thread.join()
  assert sorted(outcomes) == ['in'] + ['out'] * 7


_OWNER = """
import signal, sys, threading
from impala_tf.runs import url_lock
url_lock._BEAT_SECS = 0.1
asked = threading.Event()
signal.signal(signal.SIGTERM, lambda *unused: asked.set())
with url_lock.owning(sys.argv[1]):
  print('in', flush=True)
  while not asked.wait(0.05):
    pass
print('asked to end', flush=True)
"""


@contextlib.contextmanager
def _owner(path):
  with programs.running('-c', _OWNER, path) as process:
    assert process.stdout.readline() == 'in\n'
    yield process


@pytest.mark.slow
def test_process_that_is_killed_is_out_at_once(tmp_path):
  path = f'file://{tmp_path}/.lock'
  with _owner(path) as process:
    _refused(path, f'process {process.pid} on')
    process.send_signal(signal.SIGSTOP)  # It lives, though it says nothing.
    _write(path, **{**json.loads(files.read(path)), 'secs': 0.})
    _refused(path, f'process {process.pid} on')
    process.kill()
    process.wait()
    with url_lock.owning(path):
      assert json.loads(files.read(path))['pid'] != process.pid


def test_process_id_that_is_used_again_is_no_owner(path):
  with subprocess.Popen(['sleep', '60']) as sleeper:
    ticks = url_lock._start_ticks(sleeper.pid)
    for start_ticks, is_owner in ((ticks, True), (ticks - 1, False)):
      _write(path, machine=url_lock._machine(), pid=sleeper.pid,
             start_ticks=start_ticks)
      if is_owner:
        _refused(path, f'process {sleeper.pid} on')
      else:
        with url_lock.owning(path):
          pass
    sleeper.kill()


@pytest.mark.slow
def test_owner_that_was_succeeded_ends(tmp_path):
  path = f'file://{tmp_path}/.lock'
  with _owner(path) as process:

    def has_ended():
      if json.loads(files.read(path))['host'] != 'beta':
        _write(path)  # The first time, or it was just writing itself.
      return process.poll() is not None

    programs.wait_until(has_ended, 'its end', _DEADLINE_SECS)
    output, errors = process.communicate()
  assert output == 'asked to end\n'
  assert 'Process 7 on beta has taken over' in errors
  assert json.loads(files.read(path))['host'] == 'beta'  # That stays.
