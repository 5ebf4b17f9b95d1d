"""Append-only logs of lines, written by one process and read by others.

On a disk a log grows. Object stores cannot append, so behind a URL the whole
log is rewritten; rows are small and seconds apart.
"""

import errno
import io
import json
import os
import threading
from typing import Any, Callable, Sequence

from absl import logging

from impala_tf import config as config_lib
from impala_tf.storage import files

_CLOSE_SECS = 30.


# Not buffered, so that no part of a lost line comes later.
class _FileAppender(io.FileIO):
  def append(self, line: bytes) -> None:
    """Appends a line; drops it and raises OSError if there is no room."""
    _append(self, line, os.fstat(self.fileno()).st_size)


def _append(file: io.FileIO, line: bytes, start: int,
            directory: str | None = None) -> None:
  """Appends a line at `start`; given `directory`, waits until it is on disk."""
  try:
    if file.write(line) < len(line):
      raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if directory is not None:
      os.fsync(file.fileno())
      sync(directory)  # The file may be new.
  except OSError:
    file.truncate(start)  # Half a line would spoil all that follow.
    raise


class _RemoteAppender:
  """A log behind a URL, which a thread writes so that the caller never waits.

  Lines that arrive during a write, or could not be written, go with the next.
  """

  def __init__(self, path: str):
    self._path = path
    self._content = files.read(path) if files.exists(path) else b''
    self._num_written = len(self._content)
    self._thread: threading.Thread | None = None

  def append(self, line: bytes) -> None:
    """Queues a line, and starts a write unless one is running."""
    self._content += line
    if self._thread is None or not self._thread.is_alive():
      self._thread = threading.Thread(
          target=self._write, args=(self._content,), daemon=True)
      self._thread.start()

  def _write(self, content: bytes) -> None:
    try:
      files.write(self._path, content)
      self._num_written = len(content)
    except OSError as error:
      logging.warning('Not yet in %s, retrying: %s', self._path, error)

  def close(self) -> None:
    """Waits until all lines are written; warns if they cannot be."""
    if self._thread is not None:
      self._thread.join(_CLOSE_SECS)
      if not self._thread.is_alive() and (
          self._num_written < len(self._content)):
        self._write(self._content)
    if self._num_written < len(self._content):
      logging.warning('The last lines of %s are lost', self._path)


def open_for_appending(path: str) -> _FileAppender | _RemoteAppender:
  """Opens a log in a directory that exists; raises OSError if it cannot."""
  if files.is_url(path):
    return _RemoteAppender(path)
  return _FileAppender(path, 'a')


def append_durably(path: str, line: bytes) -> None:
  """Appends a line that then survives a crash of the machine.

  It first removes half a line of a killed process. Raises OSError if there is
  no room, and leaves the file as before.
  """
  with io.FileIO(path, 'a+') as file:
    file.seek(0)
    start = file.read().rfind(b'\n') + 1
    file.truncate(start)
    _append(file, line, start, os.path.dirname(path))


def sync(path: str) -> None:
  """Waits until a file or directory is on the disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


class _FileReader:
  def __init__(self, path: str):
    self._path = path
    self._file_number: int | None = None
    self._offset = 0

  def new_lines(self) -> list[bytes]:
    try:
      with open(self._path, 'rb') as file:
        number = os.fstat(file.fileno()).st_ino
        if number != self._file_number:
          self._file_number, self._offset = number, 0
        file.seek(self._offset)
        whole, end, _ = file.read().rpartition(b'\n')
    except FileNotFoundError:
      return []
    self._offset += len(whole) + len(end)
    return whole.splitlines()


class _RemoteReader:
  def __init__(self, path: str):
    self._path = path
    self._content = b''  # At the last call.

  def new_lines(self) -> list[bytes]:
    try:
      content = files.read(self._path)
    except FileNotFoundError:
      return []
    known = self._content if content.startswith(self._content) else b''
    self._content = content
    return content[len(known):].splitlines()


Reader = _FileReader | _RemoteReader


def open_for_reading(path: str) -> Reader:
  """Makes a reader of a log that may be growing.

  Its `new_lines` returns the lines since the last call, oldest first; none
  without a log. Half a line at the end is left for later. After `keep` has
  dropped lines the reader restarts at the first one.
  """
  return _RemoteReader(path) if files.is_url(path) else _FileReader(path)


def parsed(path: str, lines: Sequence[bytes],
           loads: Callable[[str], Any] = lambda text: dict(json.loads(text))
           ) -> list[Any]:
  """Parses lines of a log; raises UserError where `loads` raises ValueError."""
  records = []
  for line in lines:
    try:
      records.append(loads(line.decode()))
    except (RecursionError, TypeError, ValueError) as error:  # Of `decode`, too
      raise config_lib.UserError(
          f'{path} is damaged ({files.one_line(error)}); repair the line '
          f'{line[:40]!r}, or remove it') from error
  return records


def keep(path: str, is_wanted: Callable[[bytes], bool]) -> None:
  """Cuts a log, which no process appends to, after its last wanted line.

  `is_wanted` must hold for all lines before one for which it holds. The log
  need not exist.
  """
  if not files.exists(path):
    return
  content = files.read(path)
  lines = content[:content.rfind(b'\n') + 1].splitlines(keepends=True)
  wanted = b''.join(line for line in lines if is_wanted(line))
  if not wanted and files.is_url(path):  # Some stores have no empty files.
    files.remove(path)
  elif wanted != content:
    files.write(path, wanted)
