"""Memory in which a learner shares its parameters with peers on its machine.

The memory is an anonymous file of the learner's process (`anonymous_files`).
Peers that cannot open it work without it.

It has room for two vectors of parameters, which are written in turn. So nobody
waits or locks: a reader takes the one that is whole, and once more if the next
write but one has begun meanwhile. A learner that dies leaves whole parameters.
"""

import mmap
from typing import Callable, Iterable, NamedTuple

import numpy as np

from impala_tf.comms import anonymous_files

PREFIX = 'parameters-'  # Of the names by which peers find memories.

_HEADER = np.dtype([
    ('num_begun', np.int64), ('num_ended', np.int64),  # Writes.
    ('stamps', np.int64, (2, 2))])  # Of the last two writes.
_OFFSET = 64  # Bytes before the parameters, which are aligned for copying.


class Stamp(NamedTuple):
  """Counts of updates and frames behind published parameters."""
  version: int  # Learner updates behind the parameters.
  frames: int  # Environment frames behind them.


class Memory:
  """Memory of `parameters`, float32 [2, P]; peers find it by `table_name`.

  One thread writes at a time, and each reader reads for itself.
  """

  def __init__(self, shared: anonymous_files.Shared, access: int):
    """Maps the file that `make` made or `find` found."""
    memory = mmap.mmap(shared.file.fileno(), 0, access=access)
    self._header = np.frombuffer(memory, _HEADER, 1).reshape([])
    self.parameters = np.frombuffer(
        memory, np.float32, offset=_OFFSET).reshape(2, -1)
    self.table_name = shared.name
    self.is_there = shared.is_there
    self._num_read = 0  # Number of the write that was read last.

  def write(self, stamp: Stamp, parameters: np.ndarray) -> None:
    """Writes parameters, float32 [P], for peers to read from now on.

    Raises ValueError, and writes nothing, if their number is not P.
    """
    size = self.parameters.shape[1]
    if parameters.size != size:
      raise ValueError(f'the memory is for {size} parameters, but '
                       f'{parameters.size} were given')
    number = int(self._header['num_ended']) + 1
    self._header['num_begun'] = number
    self.parameters[number % 2] = parameters
    self._header['stamps'][number % 2] = stamp
    self._header['num_ended'] = number

  def read(self, take: Callable[[np.ndarray], None]) -> Stamp | None:
    """Calls `take` with the parameters if they are newer than the last read.

    `take` gets them, float32 [P], and must copy them; it is called again if
    they have changed meanwhile. Its exceptions are passed on. Returns None if
    nothing is new.
    """
    while (number := int(self._header['num_ended'])) != self._num_read:
      take(self.parameters[number % 2])
      stamp = Stamp(*map(int, self._header['stamps'][number % 2]))
      if self._header['num_begun'] < number + 2:
        self._num_read = number
        return stamp
    return None


def make(size: int) -> Memory | None:
  """Makes a memory of P parameters; None if the system cannot share memory."""
  try:
    shared = anonymous_files.make(PREFIX, _OFFSET + 2 * 4 * size)
  except (AttributeError, OSError):  # The former if this is not Linux.
    return None
  return Memory(shared, mmap.ACCESS_WRITE)


def find(tables: Iterable[str]) -> Memory | None:
  """Opens the memory whose name is among `tables`; None if that fails."""
  shared = anonymous_files.find(PREFIX, tables, 'rb')
  return shared and Memory(shared, mmap.ACCESS_READ)
