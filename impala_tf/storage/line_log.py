"""Logs of lines that one process appends while others read them.

On a disk a log is one file that grows. Object stores cannot append: behind a
URL there are numbered pieces, metrics-00000.jsonl and so on for metrics.jsonl,
of which the last is rewritten with each line. So a piece is whole at any time,
and the size of a piece bounds the cost of a line; a single file would be sent
again and again as a whole. (TensorFlow's own appending does that, and is not
atomic; a file for each start of a process would still grow with the run; rare
writes would lose rows that a checkpoint has.)
"""

import errno
import os
import re
import threading
from typing import Callable, List, Optional, Union

from absl import logging

from impala_tf.storage import files

_PIECE_BYTES = 2**18
_CLOSE_SECS = 30.


class _FileAppender:
  """A log in one file, to which each line is appended whole or not at all."""

  def __init__(self, path: str):
    # Unbuffered, so that no part of a lost line comes later.
    self._file = open(path, 'ab', buffering=0)

  def append(self, line: bytes) -> None:
    """Appends a line, or raises OSError and loses it where there is no room."""
    start = os.fstat(self._file.fileno()).st_size
    try:
      if self._file.write(line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
      self._file.truncate(start)  # Half a line would spoil all that follow.
      raise

  def close(self) -> None:
    """Closes the file."""
    self._file.close()


class _PieceAppender:
  """A log in pieces, which a thread writes so that the caller never waits.

  Lines that come during a write go with the next one, and so do lines that
  could not be written.
  """

  def __init__(self, path: str):
    self._path = path
    numbers = _numbers(path)
    self._number = numbers[-1] + 1 if numbers else 0
    self._content = b''  # The last piece.
    self._num_written = 0  # Bytes of the last piece in the store.
    self._thread: Optional[threading.Thread] = None

  def append(self, line: bytes) -> None:
    """Takes a line, and starts a write unless one is under way."""
    if self._num_written == len(self._content) >= _PIECE_BYTES:
      self._number += 1
      self._content, self._num_written = b'', 0
    self._content += line
    if self._thread is None or not self._thread.is_alive():
      self._thread = threading.Thread(
          target=self._write, args=(self._content,), daemon=True)
      self._thread.start()

  def _write(self, content: bytes) -> None:
    try:
      files.write(_piece(self._path, self._number), content)
      self._num_written = len(content)
    except OSError as error:
      logging.warning('Lines are not yet in %s: %s', self._path, error)

  def close(self) -> None:
    """Waits until all lines are written; warns where they cannot be."""
    if self._thread is not None:
      self._thread.join(_CLOSE_SECS)
      if not self._thread.is_alive() and (
          self._num_written < len(self._content)):
        self._write(self._content)
    if self._num_written < len(self._content):
      logging.warning('The last lines of %s are lost', self._path)


Appender = Union[_FileAppender, _PieceAppender]


def open_for_appending(path: str) -> Appender:
  """Opens a log in a directory that exists; raises OSError where it cannot."""
  return _PieceAppender(path) if files.is_url(path) else _FileAppender(path)


def append_durably(path: str, line: bytes) -> None:
  """Appends a line to a file so that it outlives a crash of the machine.

  Half a line that a process left when it was killed is removed first.

  Args:
    path: path of the file, which need not exist.
    line: line with its end.

  Raises:
    OSError: where there is no room; then the file is as before.
  """
  with open(path, 'ab+', buffering=0) as file:
    file.seek(0)
    start = file.read().rfind(b'\n') + 1
    file.truncate(start)
    try:
      if file.write(line) < len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
      os.fsync(file.fileno())
      sync(os.path.dirname(path))  # The file may be new.
    except OSError:
      file.truncate(start)
      raise


def sync(path: str) -> None:
  """Waits until a file or directory is on the disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def _piece(path: str, number: int) -> str:
  stem, ending = os.path.splitext(path)
  return f'{stem}-{number:05d}{ending}'


def _numbers(path: str) -> List[int]:
  """Lists the numbers of the pieces that exist, in their order."""
  directory, name = os.path.split(path)
  stem, ending = map(re.escape, os.path.splitext(name))
  found = (re.fullmatch(rf'{stem}-(\d+){ending}', name)
           for name in files.names(directory))
  return sorted(int(match.group(1)) for match in found if match)


class _FileReader:
  """A reader that follows a log in one file."""

  def __init__(self, path: str):
    self._path = path
    self._file_number = None
    self._offset = 0

  def new_lines(self) -> List[bytes]:
    """See `open_for_reading`."""
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


class _PieceReader:
  """A reader that follows a log in pieces."""

  def __init__(self, path: str):
    self._path = path
    self._number = 0  # The piece that was the last.
    self._content = b''  # Its content then.

  def new_lines(self) -> List[bytes]:
    """See `open_for_reading`."""
    try:
      contents = {number: files.read(_piece(self._path, number))
                  for number in _numbers(self._path)
                  if number >= self._number}
      if not contents.get(self._number, b'').startswith(self._content):
        self._number, self._content = 0, b''  # Lines were dropped.
        return self.new_lines()
    except FileNotFoundError:  # Lines are being dropped.
      return []
    known = len(self._content)
    if contents:
      self._number = max(contents)
      self._content = contents[self._number]
    return b''.join(contents.values())[known:].splitlines()


Reader = Union[_FileReader, _PieceReader]


def open_for_reading(path: str) -> Reader:
  """Makes a reader of a log that may be written meanwhile.

  Its `new_lines` returns the lines since the last call, oldest first, and none
  while there is no log. A last line without its end is being written, or was
  cut short by a kill: it is left for later. After `keep` the reader begins anew
  with the first line.
  """
  return _PieceReader(path) if files.is_url(path) else _FileReader(path)


def keep(path: str, is_wanted: Callable[[bytes], bool]) -> None:
  """Drops the last lines of a log to which no process appends.

  Args:
    path: path of the log, which need not exist.
    is_wanted: tells whether a line stays. All lines before one that stays must
      stay, too.
  """
  if not files.is_url(path):
    if os.path.exists(path):
      files.write(path, _wanted(_FileReader(path).new_lines(), is_wanted))
    return
  # Backwards, so that the next call does the rest if this one is killed.
  for number in reversed(_numbers(path)):
    piece = _piece(path, number)
    content = files.read(piece)
    wanted = _wanted(content.splitlines(), is_wanted)
    if wanted:
      if wanted != content:
        files.write(piece, wanted)
      return
    files.remove(piece)


def _wanted(lines: List[bytes], is_wanted: Callable[[bytes], bool]) -> bytes:
  return b''.join(line + b'\n' for line in lines if is_wanted(line))
