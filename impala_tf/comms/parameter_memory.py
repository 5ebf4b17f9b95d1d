"""Memory in which a learner shares its parameters with peers on its machine.

The memory is an anonymous file of the learner's process (`anonymous_files`).
Peers that cannot open it work without it.

A lock on the file orders writes and reads. A reader that does not get it in
time keeps its old parameters. A writer abandons the memory to the holder, such
as a process that was stopped, and makes another.
"""

import contextlib
import fcntl
import mmap
import os
import secrets
from typing import Callable, Iterable, NamedTuple, Optional

import numpy as np

from impala_tf.comms import anonymous_files

PREFIX = 'parameters-'  # Of the names by which peers find memories.
# A write or read takes less than a millisecond, of a process that may have to
# wait for a core.
_LOCK_SECS = 0.05

_HEADER = np.dtype([(name, np.int64) for name in (
    'num_begun', 'num_ended',  # Writes; they differ within one.
    'version', 'frames')])
_OFFSET = 64  # Bytes before the parameters, which are aligned for copying.


class Stamp(NamedTuple):
  """Numbers that come with the parameters."""
  version: int  # Learner updates behind the parameters.
  frames: int  # Environment frames behind them.


class _Mapping:
  """The file in this process's memory: its header, and parameters [P]."""

  def __init__(self, fd: int, access: int):
    memory = mmap.mmap(fd, 0, access=access)
    self.header = np.frombuffer(memory, _HEADER, 1).reshape([])
    self.parameters = np.frombuffer(memory, np.float32, offset=_OFFSET)

  def write(self, stamp: Stamp, parameters: np.ndarray) -> None:
    self.header['num_begun'] += 1
    self.parameters[:] = parameters
    self.header['version'], self.header['frames'] = stamp
    self.header['num_ended'] += 1


class Memory:
  """A learner's side of the memory; peers find it by its `table_name`."""

  def __init__(self, size: int):
    """Makes it for P = `size` parameters; raises as `anonymous_files.make`."""
    self._size = size
    self._token = secrets.token_hex(8)
    self._file = anonymous_files.make(PREFIX, self._token)
    self._mapping = self._map(self._file.fileno())
    self.table_name = anonymous_files.name(PREFIX, self._token, self._file)

  def _map(self, fd: int) -> _Mapping:
    os.ftruncate(fd, _OFFSET + 4 * self._size)
    return _Mapping(fd, mmap.ACCESS_WRITE)

  def write(self, stamp: Stamp, parameters: np.ndarray) -> None:
    """Writes parameters, float32 [P], for peers to read from now on.

    Raises ValueError, and writes nothing, if their number is not P.
    """
    # Within a write it would look like a death.
    if parameters.size != self._size:
      raise ValueError(f'the memory is for {self._size} parameters, but '
                       f'{parameters.size} were given')
    with anonymous_files.lock(
        self._file.fileno(), fcntl.LOCK_EX, _LOCK_SECS) as is_locked:
      if is_locked:
        self._mapping.write(stamp, parameters)
    if not is_locked:
      # If the system allows no other, peers keep theirs until the next write.
      with contextlib.suppress(OSError):
        self._replace(stamp, parameters)

  def _replace(self, stamp: Stamp, parameters: np.ndarray) -> None:
    """Replaces this memory by another, which peers find in the same place."""
    with anonymous_files.make(PREFIX, self._token) as other:
      mapping = self._map(other.fileno())
      for count in ('num_begun', 'num_ended'):
        mapping.header[count] = self._mapping.header['num_ended']
      mapping.write(stamp, parameters)  # No lock: nobody else has it open yet.
      os.dup2(other.fileno(), self._file.fileno(), inheritable=False)
    self._mapping = mapping


def make(size: int) -> Optional[Memory]:
  """Makes a `Memory`; None if the system cannot share memory."""
  try:
    return Memory(size)
  except (AttributeError, OSError):  # The former if this is not Linux.
    return None


class Reader:
  """A peer's side of the memory."""

  def __init__(self, table_name: str):
    """Opens a memory by its name; raises OSError or ValueError on failure."""
    self.table_name = table_name
    self._num_read = 0  # Number of the write that was read last.
    self._open()

  def _open(self) -> None:
    self._file, self._path = anonymous_files.open_named(
        self.table_name, PREFIX, 'rb')
    self._inode = os.fstat(self._file.fileno()).st_ino
    self._mapping = _Mapping(self._file.fileno(), mmap.ACCESS_READ)

  def is_there(self) -> bool:
    """Returns whether the learner still has it; follows it to a new place."""
    try:
      if os.stat(self._path).st_ino != self._inode:
        self._open()
      return True
    except (OSError, ValueError):
      return False

  def read(self, take: Callable[[np.ndarray], None]) -> Optional[Stamp]:
    """Reads parameters that were written since the last call.

    `take` gets them, float32 [P], and must quickly copy them: the memory is
    locked meanwhile. Its exceptions are passed on. Returns None if nothing is
    new, or the memory stays locked. Raises ConnectionError if the learner died
    during a write.
    """
    with anonymous_files.lock(
        self._file.fileno(), fcntl.LOCK_SH, _LOCK_SECS) as is_locked:
      if not is_locked:
        return None
      header = self._mapping.header
      num_ended = int(header['num_ended'])
      if header['num_begun'] != num_ended:
        raise ConnectionError('the learner died while it wrote its parameters')
      if num_ended == self._num_read:
        return None
      take(self._mapping.parameters)
      self._num_read = num_ended
      return Stamp(int(header['version']), int(header['frames']))


def find(tables: Iterable[str]) -> Optional[Reader]:
  """Opens the memory named among a learner's tables; None if it cannot."""
  for name in tables:
    if name.startswith(PREFIX):
      with contextlib.suppress(OSError, ValueError):
        return Reader(name)
  return None
