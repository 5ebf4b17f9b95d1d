"""Publishers and fetchers, which carry parameters from learner to actors.

Peers on the learner's machine read parameters in its memory
(`comms.parameter_memory`); all others read a Reverb table. It holds the newest
parameters only, as one flat vector, which is one copy for all variables. Beside
them are the numbers of learner updates and environment frames behind them.

Actors fetch; nobody sends to them. A fetch serves the E unrolls that an actor
plays at once: an update has B/E fetches, however many actors share them.
"""

import collections
import threading
import time
from typing import Any, Callable, Sequence

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import acting
from impala_tf.comms import parameter_memory
from impala_tf.comms import reverb_calls
from impala_tf.runtime import interfaces
from impala_tf.runtime import waiting

_TABLE = 'weights'
_POLL_SECS = 0.1
# Seconds between writes while nobody reads the table; new peers need them.
_TABLE_SECS = 1.
# After a read, each update's parameters are written for this many seconds.
_READ_SECS = 10.
# Time between two looks of a reader of the memory at the learner's server.
_CHECK_SECS = 1.

# Function that takes parameters, float32 [P], which nobody changes later.
WriteFn = Callable[[parameter_memory.Stamp, np.ndarray], None]


def num_parameters(variables: Sequence[tf.Variable]) -> int:
  """Returns the total number of elements of variables."""
  return sum(int(np.prod(v.shape)) for v in variables)


def make_tables(variables: Sequence[tf.Variable],
                memory: parameter_memory.Memory | None = None
                ) -> list[reverb.Table]:
  """Makes the parameters' table and, for a memory, one that announces it."""
  tables = [reverb_calls.newest_item_table(
      _TABLE, tf.TensorSpec([], tf.int64, 'version'),
      tf.TensorSpec([num_parameters(variables)], tf.float32, 'parameters'),
      tf.TensorSpec([], tf.int64, 'frames'))]
  if memory is not None:
    # It stays empty: peers need no more than its name.
    tables.append(reverb.Table.queue(memory.table_name, max_size=1))
  return tables


def make_snapshot(variables: Sequence[tf.Variable]) -> Callable[[], np.ndarray]:
  """Returns a function that copies variables into one vector, float32 [P]."""
  flatten = tf.function(
      lambda: tf.concat([tf.cast(tf.reshape(v, [-1]), tf.float32)
                         for v in variables], 0), autograph=False)
  # One tensor: on Python 3.11 TensorFlow leaves 16 bytes of each behind.
  return lambda: flatten().numpy()


def frames_from(version: int, frames: int, frames_per_update: int
                ) -> Callable[[int], int]:
  """Returns a function that converts a later version to environment frames."""
  return lambda later: frames + (later - version) * frames_per_update


class Publisher:
  """A callback that publishes parameters; threads may share `publish`."""

  def __init__(self, snapshot: Callable[[], np.ndarray],
               frames_at: Callable[[int], int],
               destinations: Sequence[WriteFn], is_late: bool = False):
    """Stores `snapshot`, which copies parameters, and `frames_at` of a version.

    With `is_late`, parameters are published at `catch_up` only. In one process
    some eight updates are made before anybody fetches.
    """
    self.snapshot = snapshot
    self._frames_at = frames_at
    self._destinations = destinations
    self._is_late = is_late
    self._noted: int | None = None
    self._lock = threading.Lock()
    self._version = -1

  def after_update(self, update: interfaces.Update) -> None:
    """Publishes an update's parameters, or with `is_late` notes its number."""
    self._noted = update.updates
    if not self._is_late:
      self.catch_up()

  def catch_up(self) -> None:
    """Publishes the newest version unless it was published; see `publish`."""
    if self._noted is not None:
      self.publish(self._noted)
      self._noted = None

  def publish(self, version: int) -> None:
    """Publishes the present parameters under their number of updates.

    Versions older than the newest are dropped: readers never see them go down.
    Raises ConnectionError if the server does not answer, RuntimeError if an
    earlier publication in the background has failed.
    """
    with self._lock:
      if version < self._version:
        return
      self._version = version
      parameters = self.snapshot()
      stamp = parameter_memory.Stamp(version, self._frames_at(version))
      for destination in self._destinations:
        destination(stamp, parameters)


class Table:
  """The table of parameters, as a destination of a `Publisher`."""

  def __init__(self, address: str):
    self._client = reverb.Client(address)
    # Kept open: `client.insert` would open another, at twice the cost.
    self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)

  def write(self, stamp: parameter_memory.Stamp, parameters: np.ndarray
            ) -> None:
    """Replaces the parameters; raises ConnectionError without a server."""
    reverb_calls.insert(
        self._client, self._writer, _TABLE,
        [np.int64(stamp.version), parameters, np.int64(stamp.frames)])

  def num_samples(self) -> int:
    """Returns how often peers have read the table; raises as `write` does."""
    info = reverb_calls.server_info(self._client)[_TABLE]
    return info.rate_limiter_info.sample_stats.completed


class NewestSender:
  """A sender of snapshots in a thread, so that the caller does not wait.

  A snapshot that is still waiting when the next arrives is dropped.
  """

  def __init__(self, write: WriteFn):
    """Starts the thread, which calls `write` until it raises an exception."""
    self._write = write
    self._newest: tuple[parameter_memory.Stamp, np.ndarray] | None = None
    self._error: Exception | None = None
    self._wake = threading.Condition()
    threading.Thread(target=self._run, daemon=True).start()

  def write(self, stamp: parameter_memory.Stamp, snapshot: np.ndarray) -> None:
    """Gives the thread a snapshot; RuntimeError if an earlier write failed."""
    with self._wake:
      if self._error is not None:
        raise RuntimeError('publishing the parameters failed') from self._error
      self._newest = (stamp, snapshot)
      self._wake.notify()

  def _run(self):
    while True:
      with self._wake:
        self._wake.wait_for(lambda: self._newest is not None)
        newest, self._newest = self._newest, None
      try:
        self._write(*newest)
      except Exception as error:  # pylint: disable=broad-except
        with self._wake:
          self._error = error
        return


def on_demand(table: Table, clock: Callable[[], float] = time.monotonic
              ) -> WriteFn:
  """Wraps a table so that it is written once a second, or always while read."""
  num_samples, read_until, next_write = 0, float('-inf'), float('-inf')

  def write(stamp, parameters):
    nonlocal num_samples, read_until, next_write
    now = clock()
    if now < read_until or now >= next_write:
      next_write = now + _TABLE_SECS
      table.write(stamp, parameters)
      before, num_samples = num_samples, table.num_samples()
      if num_samples != before:
        read_until = clock() + _READ_SECS

  return write


def delayed(write: WriteFn, lag_updates: int) -> WriteFn:
  """Wraps `write` so that it receives parameters `lag_updates` updates late.

  Before there are so many, it gets the oldest parameters.
  """
  waiting: collections.deque = collections.deque(maxlen=lag_updates + 1)

  def write_oldest(stamp, parameters):
    waiting.append((stamp, parameters))
    write(*waiting[0])

  return write_oldest


def in_other_processes(table: Table, memory: parameter_memory.Memory | None,
                       write_all: bool) -> list[WriteFn]:
  """Makes the publisher's destinations for readers in other processes.

  A thread writes to each, so an update waits for the snapshot alone. With
  `write_all` the table gets each update's parameters, as actors that wait need.
  """
  writes = [table.write if write_all or memory is None else on_demand(table)]
  if memory is not None:
    writes.insert(0, memory.write)
  return [NewestSender(write).write for write in writes]


class Fetcher:
  """A fetcher that copies a learner's parameters to an actor's variables."""

  def __init__(self, address: str, variables: Sequence[tf.Variable],
               run_table: str | None = None, interval: int = 1,
               may_share: bool = True,
               clock: Callable[[], float] = time.monotonic):
    """Connects to the learner's server at 'host:port'.

    Args:
      run_table: name of a table that only a server of the same run has; see
        `config_table.table_name`.
      interval: number of calls of `fetch` of which the first asks the learner;
        the others change nothing.
      may_share: whether to read the learner's memory if it is on this machine.
    """
    self._client = reverb.Client(address)
    self._run_table = run_table
    self._interval = interval
    self._may_share = may_share
    self._clock = clock
    self._calls_left = 0  # Until the learner is asked again.
    self._size = num_parameters(variables)
    self._assign = acting.make_assign(list(variables))
    self._memory: parameter_memory.Memory | None = None
    self._next_check = float('-inf')
    # Which learner, and its inserts.
    self._seen_in_table: tuple[str | None, int] = (None, 0)
    self._version: int | None = None
    self.frames = 0  # Environment frames behind the newest fetched parameters.
    # Unique name of the learner's process that published them; None if it has
    # no memory to share.
    self.learner: str | None = None

  def fetch(self) -> int | None:
    """Updates the variables; returns the version of their parameters.

    It is None while nothing has been published. Raises ConnectionError if the
    server does not answer, is of another run, or died while it published;
    ConfigError if the learner's agent has another number of parameters.
    """
    if self._version is not None and self._calls_left:
      self._calls_left -= 1
      return self._version
    self._calls_left = self._interval - 1
    if self._memory is not None and not self._memory.is_there():
      self._memory = None
    if self._memory is None or self._clock() >= self._next_check:
      self._ask_server()
    if self._memory is not None:
      stamp = self._memory.read(self._assign_vector)
      if stamp is not None:
        self._version, self.frames = stamp
        self.learner = self._memory.table_name
    return self._version

  def _ask_server(self) -> None:
    info = reverb_calls.server_info(self._client)
    if self._run_table and self._run_table not in info:
      raise ConnectionError('the learner there is of another config now')
    learner = next((name for name in info if name.startswith(
        parameter_memory.PREFIX)), None)
    if self._memory is None or self._memory.table_name != learner:
      self._memory = None
      if learner is not None and self._may_share:
        self._memory = parameter_memory.find([learner])
    self._next_check = self._clock() + _CHECK_SECS
    if self._memory is None:
      self._fetch_from_table(info[_TABLE], learner)

  def _fetch_from_table(self, info: Any, learner: str | None) -> None:
    # The count of inserts takes half a millisecond and shows whether to ask.
    # `sample` would block on an empty table.
    seen = (learner, info.rate_limiter_info.insert_stats.completed)
    if info.current_size and seen != self._seen_in_table:
      self._seen_in_table = seen
      # `sample` is fresh; a dataset over the table would prefetch old ones.
      version, parameters, frames = reverb_calls.newest_item(
          self._client, _TABLE)
      self._assign_vector(parameters)
      self._version, self.frames = int(version), int(frames)
      self.learner = learner

  def _assign_vector(self, parameters: np.ndarray) -> None:
    """Copies parameters, float32 [P], into the variables."""
    if parameters.size != self._size:
      raise config_lib.ConfigError(
          f'the learner sent {parameters.size} parameters, but this agent has '
          f'{self._size}; install the same version of the project, and of '
          'files for --import, on both machines')
    self._assign(tf.constant(parameters))

  def wait(self, poll: waiting.PollFn) -> int:
    """Waits for the first parameters, calling `poll` meanwhile; see `fetch`."""
    while (version := self.fetch()) is None:
      poll('it has published no parameters yet')
      time.sleep(_POLL_SECS)
    return version
