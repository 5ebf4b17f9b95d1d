"""Memory in which all workers of a run share their parameters, without locks.

Section 4 of Mnih et al. 2016 (arXiv:1602.01783v2): theta, theta-minus, the
optimiser's memory and the frame counter T. Vectors are read and changed without
locks, as Hogwild! does (Recht et al. 2011). Counts and records are small and
behind a lock, which the kernel releases if its holder dies.

The memory is an anonymous file of the process that makes it
(`comms.anonymous_files`): nothing is left behind, however processes end.
"""

import fcntl
import functools
import json
import mmap
from typing import Any, Callable, Iterable, NamedTuple

import numpy as np

from impala_tf.comms import anonymous_files

_PREFIX = 'shared_parameters-'

_HEADER = np.dtype([(name, np.int64) for name in (
    'num_parameters', 'num_slots', 'num_frames', 'num_updates', 'num_syncs',
    'num_records')])
_ALIGNMENT = 64  # Bytes at which vectors begin, which are copied faster so.
_BLOCK = 32 * 1024  # Numbers that stay in a core's cache meanwhile.
# Records wait in a ring: seconds of play, while a checkpoint is written.
_NUM_RECORDS = 4096
RECORD_BYTES = 2048  # With the length at its beginning; A3C takes some 550.
_LENGTH_BYTES = 8  # At the beginning of each record.

# Takes a step in place: parameters, the optimiser's memory of them, their
# gradient, float32 [N] each, and the learning rate. It works elementwise, so
# that vectors may be processed block by block. NumPy only: TensorFlow's own
# operations lock the vectors they change.
UpdateFn = Callable[[np.ndarray, np.ndarray, np.ndarray, float], None]


def rmsprop(parameters: np.ndarray, mean_squares: np.ndarray,
            gradient: np.ndarray, learning_rate: float, decay: float,
            epsilon: float) -> None:
  """Takes a step of RMSProp, not centred, in place.

    g <- decay g + (1 - decay) gradient^2
    parameters <- parameters - learning_rate gradient / sqrt(g + epsilon)

  Equations S2 and S3. Vectors are float32 [N], g (`mean_squares`) is 0 or more,
  the gradient finite.
  """
  # Read once: another process may write meanwhile, and a value that is half old
  # and half new could be negative, which has no root.
  mean_square = decay * mean_squares + (1 - decay) * np.square(gradient)
  mean_squares[:] = mean_square
  mean_square += epsilon
  np.sqrt(mean_square, out=mean_square)
  np.divide(gradient, mean_square, out=mean_square)
  mean_square *= learning_rate
  parameters -= mean_square


def momentum_sgd(parameters: np.ndarray, momenta: np.ndarray,
                 gradient: np.ndarray, learning_rate: float,
                 decay: float) -> None:
  """Takes a step of stochastic gradient descent with momentum, in place.

  m <- decay m + (1 - decay) gradient
  parameters <- parameters - learning_rate m
  """
  momentum = decay * momenta + (1 - decay) * gradient
  momenta[:] = momentum
  momentum *= learning_rate
  parameters -= momentum


def make_optimizer(name: str, decay: float, epsilon: float) -> UpdateFn:
  """Makes the optimiser 'shared_rmsprop', 'rmsprop' or 'momentum_sgd'."""
  if name == 'momentum_sgd':
    return functools.partial(momentum_sgd, decay=decay)
  return functools.partial(rmsprop, decay=decay, epsilon=epsilon)


def num_slots(name: str, num_workers: int) -> int:
  """Returns the number of optimiser slots: 1 if shared, else one a worker."""
  return 1 if name == 'shared_rmsprop' else num_workers


class Counts(NamedTuple):
  """Numbers of frames, updates and target syncs of all workers together."""
  num_frames: int  # T, environment frames that were learned from.
  num_updates: int  # Updates, skipped ones included.
  num_syncs: int  # How often the target network was replaced.


def _aligned(num_bytes: int) -> int:
  return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


class Store:
  """Parameters and counts of a run, in memory that its processes share.

  Attributes:
    parameters: theta, float32 [P]. Others may change it at any time.
    target_parameters: theta-minus, float32 [P], likewise.
    slots: the optimiser's mean squares or momenta, float32 [S, P], likewise.
    table_name: name of the Reverb table by which other processes find it.
    is_there: returns whether the process that made the memory still has it.
  """

  def __init__(self, shared: anonymous_files.Shared):
    """Maps the shared file, whose header is written; see `make` and `find`."""
    self.table_name = shared.name
    self.is_there = shared.is_there
    self._file = shared.file
    memory = mmap.mmap(self._file.fileno(), 0)
    self._header = np.frombuffer(memory, _HEADER, 1).reshape([])
    size = int(self._header['num_parameters'])
    start = _aligned(_HEADER.itemsize)

    def vector():
      nonlocal start
      array = np.frombuffer(memory, np.float32, size, start)
      start += _aligned(array.nbytes)
      return array

    self.parameters, self.target_parameters = vector(), vector()
    self.slots = [vector() for _ in range(int(self._header['num_slots']))]
    self._records = np.frombuffer(
        memory, np.uint8, _NUM_RECORDS * RECORD_BYTES, start).reshape(
            _NUM_RECORDS, RECORD_BYTES)

  @property
  def counts(self) -> Counts:
    return Counts(*(int(self._header[name]) for name in Counts._fields))

  def set_counts(self, num_frames: int, num_updates: int) -> None:
    """Sets the counts of a run that resumes, before there are workers."""
    self._header['num_frames'] = num_frames
    self._header['num_updates'] = num_updates

  @property
  def problem(self) -> str:
    """Returns a message that names the lock's holder, or '' if unknown."""
    pid = anonymous_files.lock_holder(self._file.fileno())
    return '' if pid is None else (
        f'process {pid} has the lock of the shared parameters; if it is '
        f'stopped, `kill -CONT {pid}` lets it go on')

  def push(self, update: UpdateFn, slot: int, gradient: np.ndarray,
           learning_rate: float) -> None:
    """Applies an optimiser's step while other workers may apply theirs.

    `slot` is the index in `slots` of the optimiser's memory. The gradient,
    float32 [P], must be finite: nothing takes NaN out again.
    """
    for start in range(0, self.parameters.size, _BLOCK):
      block = slice(start, start + _BLOCK)
      update(self.parameters[block], self.slots[slot][block], gradient[block],
             learning_rate)

  def add_frames(self, num_frames: int, target_interval_frames: int,
                 record: dict[str, Any]) -> None:
    """Counts an update and its frames, and stores its record as JSON.

    If T has reached another multiple of the interval, this call replaces the
    target network by the shared parameters.
    """
    text = json.dumps(record).encode()
    header = self._header
    fcntl.flock(self._file.fileno(), fcntl.LOCK_EX)
    try:
      row = self._records[int(header['num_records']) % _NUM_RECORDS]
      row[:_LENGTH_BYTES].view(np.int64)[0] = len(text)
      row[_LENGTH_BYTES:_LENGTH_BYTES + len(text)] = np.frombuffer(
          text, np.uint8)
      # First: frames without a record could be the last ones, and whoever reads
      # records would wait for ever if this process died in between.
      header['num_records'] += 1
      before = int(header['num_frames'])
      num_crossed = ((before + num_frames) // target_interval_frames
                     - before // target_interval_frames)
      if num_crossed:
        # Before its frames count: if this process dies within the copy, the
        # next one that learns sees the multiple crossed, too.
        self.sync_target()
        header['num_syncs'] += num_crossed
      header['num_frames'] += num_frames
      header['num_updates'] += 1
    finally:
      fcntl.flock(self._file.fileno(), fcntl.LOCK_UN)

  def sync_target(self) -> None:
    np.copyto(self.target_parameters, self.parameters)

  def new_records(self, num_read: int) -> tuple[list[dict[str, Any]], int]:
    """Reads the records of `add_frames` after the first `num_read`.

    Returns these, oldest first, and the number of records up to them; none
    while another process has the lock.
    """
    if int(self._header['num_records']) == num_read:
      return [], num_read
    texts = []
    try:
      fcntl.flock(self._file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # Its holder may have been stopped.
      return [], num_read
    try:
      num_records = int(self._header['num_records'])
      # Older records have been overwritten.
      for number in range(
          max(num_read, num_records - _NUM_RECORDS), num_records):
        row = self._records[number % _NUM_RECORDS]
        length = int(row[:_LENGTH_BYTES].view(np.int64)[0])
        texts.append(row[_LENGTH_BYTES:_LENGTH_BYTES + length].tobytes())
    finally:
      fcntl.flock(self._file.fileno(), fcntl.LOCK_UN)
    return [json.loads(text) for text in texts], num_records


def make(num_parameters: int, num_slots: int) -> Store:
  """Makes a store for P parameters and S slots; all its vectors are 0.

  Raises AttributeError or OSError as `anonymous_files.make` does.
  """
  shared = anonymous_files.make(
      _PREFIX, _aligned(_HEADER.itemsize)
      + (2 + num_slots) * _aligned(4 * num_parameters)
      + _NUM_RECORDS * RECORD_BYTES)
  shared.file.write(
      np.array((num_parameters, num_slots, 0, 0, 0, 0), _HEADER).tobytes())
  return Store(shared)


def find(tables: Iterable[str]) -> Store | None:
  """Opens the store whose name is among `tables`; None if that fails."""
  shared = anonymous_files.find(_PREFIX, tables, 'r+b')
  return shared and Store(shared)
