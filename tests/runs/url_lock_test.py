"""Tests that a directory behind a URL has one owner, and none that is dead."""

import json
import time

import pytest

from impala_tf.runs import url_lock
from impala_tf.storage import files
from tests.fixtures import programs


@pytest.fixture(name='path')
def _path(tmp_path):
  files.make_directory(f'ram:/{tmp_path}')
  return f'ram:/{tmp_path}/.lock'


def _refused(path, words):
  with pytest.raises(url_lock.OwnedError, match=words) as raised:
    with url_lock.owning(path):
      pytest.fail('it was let in')
  assert '\n' not in str(raised.value)


def _write(path, **changes):
  """Writes an owner's file; by default it is alive."""
  files.write(path, json.dumps({
      'host': 'beta', 'pid': 7, 'secs': time.time(), **changes}).encode())


def test_two_at_a_time_are_refused_and_two_in_turn_are_not(path):
  for _ in range(2):
    with pytest.raises(ZeroDivisionError):  # An error lets others in, too.
      with url_lock.owning(path):
        _refused(path, r'process \d+ on')
        raise ZeroDivisionError
    assert not files.exists(path)


def test_owner_is_believed_for_a_minute(path):
  _write(path)
  _refused(path, r'process 7 on beta, which said so \d s ago')
  _write(path, secs=time.time() - 50)
  _refused(path, '5. s ago')
  _write(path, secs=time.time() - 61)
  with url_lock.owning(path):
    assert json.loads(files.read(path))['host'] != 'beta'


@pytest.mark.parametrize('text', [
    '', '[]', '{"pid": 3, "host": "a"}', '{"pid": 1, "host": "a", "secs": []}'])
def test_file_that_names_nobody_keeps_nobody_out(path, text):
  files.write(path, text.encode())
  with url_lock.owning(path):
    assert json.loads(files.read(path))['pid']


def test_owner_beats_and_a_store_that_fails_for_a_while_ends_nothing(
    path, monkeypatch, caplog):

  def fail(*unused):
    raise files.RemoteError(5, 'just now there is no bucket')

  with url_lock.owning(path, beat_secs=0.05):
    with monkeypatch.context() as patch:
      patch.setattr(files, 'write', fail)
      programs.wait_until(lambda: len(caplog.records) > 2, 'warnings')
    before = files.read(path)
    programs.wait_until(lambda: files.read(path) != before, 'a beat')
