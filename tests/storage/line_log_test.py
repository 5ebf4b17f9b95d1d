"""Lines are appended whole, followed while they are, and dropped from the end.

tests/runs/metrics_test.py tests growing files; here are the claims that hold of
logs behind a URL, too, or of these alone.
"""

import os
import stat
import threading

import pytest

from impala_tf.storage import files
from impala_tf.storage import line_log
from tests.fixtures import programs

SCHEMES = ('', 'file://', 'ram:/')


@pytest.fixture(params=SCHEMES, name='path')
def _path(request, tmp_path):
  return _journal(request.param, tmp_path)


def _journal(scheme, tmp_path):
  directory = f'{scheme}{tmp_path}/run'
  files.make_directory(directory)
  return f'{directory}/metrics.jsonl'


def _append(path, *lines):
  appender = line_log.open_for_appending(path)
  for line in lines:
    appender.append(line + b'\n')
  appender.close()


def _lines(path):
  return line_log.open_for_reading(path).new_lines()


def _numbers(n):
  return [b'%d' % i for i in range(n)]


def test_lines_come_back_in_their_order(path):
  line_log.keep(path, lambda line: False)  # Without a log.
  assert _lines(path) == []
  _append(path, *_numbers(100))
  _append(path, b'of another process')
  line_log.keep(path, lambda line: True)
  assert _lines(path) == [*_numbers(100), b'of another process']


@pytest.mark.parametrize('num_kept', [0, 15])
def test_dropped_lines_are_gone_and_readers_begin_anew(path, num_kept):
  _append(path, *_numbers(100))
  reader = line_log.open_for_reading(path)
  assert reader.new_lines() == _numbers(100)
  line_log.keep(path, lambda line: int(line) < num_kept)
  assert _lines(path) == _numbers(num_kept)
  _append(path, *[b'a line that is new'] * 9)
  assert reader.new_lines() == _numbers(num_kept) + [b'a line that is new'] * 9
  _append(path, b'last')
  assert reader.new_lines() == [b'last']


# Behind a URL.


@pytest.fixture(name='ram')
def _ram(tmp_path):
  return _journal('ram:/', tmp_path)


class _Store:
  """A replacement for `files.write` that can be slow or fail."""

  def __init__(self, monkeypatch):
    self._write = files.write
    self.num_writes = 0
    self.is_failing = False
    self.may_go_on = threading.Event()
    self.may_go_on.set()
    monkeypatch.setattr(files, 'write', self._note)

  def _note(self, path, content):
    assert self.may_go_on.wait(60.)
    if self.is_failing:
      raise files.RemoteError(5, 'just now there is no bucket')
    self.num_writes += 1
    self._write(path, content)


def test_who_appends_does_not_wait_and_nothing_is_lost(ram, monkeypatch):
  store = _Store(monkeypatch)
  store.may_go_on.clear()
  appender = line_log.open_for_appending(ram)
  for line in _numbers(1000):
    appender.append(line + b'\n')
  assert not files.names(ram.rpartition('/')[0])
  store.may_go_on.set()
  appender.close()
  assert _lines(ram) == _numbers(1000)
  assert store.num_writes == 2  # The first line, and all that came meanwhile.


def test_lines_that_could_not_be_written_go_with_the_next(
    ram, monkeypatch, caplog):
  store = _Store(monkeypatch)
  store.is_failing = True
  appender = line_log.open_for_appending(ram)
  appender.append(b'1\n')
  programs.wait_until(lambda: caplog.messages, 'the failure')
  store.is_failing = False
  appender.append(b'2\n')
  appender.close()
  assert _lines(ram) == [b'1', b'2']
  store.is_failing = True
  _append(ram, b'3')
  first, *_, last = caplog.messages
  assert 'no bucket' in first and 'are lost' in last
  assert _lines(ram) == [b'1', b'2']


def test_durable_line_replaces_half_a_line_or_is_not_written(
    tmp_path, monkeypatch):
  path = tmp_path / 'log.jsonl'
  synced = []
  with monkeypatch.context() as patch:
    patch.setattr(line_log.os, 'fsync', lambda descriptor: synced.append(
        stat.S_ISDIR(os.fstat(descriptor).st_mode)))
    line_log.append_durably(str(path), b'one\n')
  assert synced == [False, True]
  path.write_bytes(path.read_bytes() + b'tw')
  line_log.append_durably(str(path), b'three\n')
  assert path.read_bytes() == b'one\nthree\n'

  def fail(descriptor):
    raise OSError(5, 'the disk has failed')

  monkeypatch.setattr(line_log.os, 'fsync', fail)
  with pytest.raises(OSError):
    line_log.append_durably(str(path), b'four\n')
  assert path.read_bytes() == b'one\nthree\n'
