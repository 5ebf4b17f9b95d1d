"""Learners that apply each update together, or a single learner.

Each of several learners is a process with its own queue, actors and devices.
TensorFlow's MultiWorkerMirroredStrategy keeps their parameters equal by summing
all gradients. Since losses are sums, an update equals that of a single learner
with all batches as one (figure 1 of the paper, right).

An update waits for all learners: one that stopped alone would leave the others
waiting. So they take turns, in which each reports whether it has a batch, and
whether it was asked to stop. They update if all have one, and stop together if
one was asked to. Turns are short because signals are not handled within one.

Once a learner is lost nothing is saved, and all processes start again from the
last checkpoint. Actors too: their unrolls would be newer than the parameters.
"""

import contextlib
import faulthandler
import os
import time
from typing import Callable, Iterator, Sequence
import zlib

import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.runtime import ports
from impala_tf.runtime import waiting
from impala_tf.storage import files

_POLL_SECS = 0.5
_PROBE_SECS = 1.
_CONNECT_SECS = 120.
# TensorFlow reports a learner that is dead sooner. This is for one that hangs;
# first updates and checkpoints take long.
_TIMEOUT_SECS = 300.
# A process that is killed closes its sockets one by one: its peers may lose
# their connections before its port is free.
_DYING_SECS = 5.
# Errors of collective operations when another process has gone.
_LOSSES = (tf.errors.UnavailableError, tf.errors.AbortedError,
           tf.errors.CancelledError, tf.errors.DeadlineExceededError,
           tf.errors.FailedPreconditionError, tf.errors.InternalError)


class Learners:
  """All learners of a run, as seen by one learner; here a single learner."""

  def __init__(self, strategy: tf.distribute.Strategy, task: int = 0,
               number: int = 1):
    self.strategy = strategy
    self.task = task
    self.number = number

  @property
  def is_chief(self) -> bool:
    """Whether this learner writes the files of the run, such as checkpoints."""
    return self.task == 0

  def gather(self, numbers: Sequence[float]) -> np.ndarray:
    """Gathers [K] numbers of each of N learners as float64 [N, K].

    All learners must make the same calls in the same order. Raises PeerLost if
    another learner has gone.
    """
    return np.array([numbers], np.float64)

  def noticing_loss(self) -> contextlib.AbstractContextManager:
    """Makes a context that raises PeerLost for errors of a lost connection."""
    return contextlib.nullcontext()

  # Makes a context like that of `noticing_loss`, for a short computation.
  updating: Callable[[], contextlib.AbstractContextManager] = (
      contextlib.nullcontext)

  def own_directory(self, run_dir: str) -> str:
    """Returns the directory of this learner's log and other files."""
    if self.is_chief:
      return run_dir
    path = os.path.join(run_dir, f'learner_{self.task}')
    files.make_directory(path)
    return path

  def require_same(self, config: config_lib.Config, num_threads: int,
                   precision: str) -> None:
    """Raises UserError if learners differ in config, threads or precision."""
    self._require_equal(
        'another config', int(config_lib.full_fingerprint(config), 16),
        'start all with one config')
    # Threads that share a sum change the order in which it is rounded.
    self._require_equal('another number of threads', num_threads,
                        'set LearnerConfig.num_threads')
    self._require_equal('another precision', zlib.crc32(precision.encode()),
                        "set LearnerConfig.precision, not to 'auto'")

  def require_same_parameters(self, parameters: np.ndarray,
                              version: int) -> None:
    """Raises UserError if learners have restored different parameters."""
    self._require_equal(
        'other parameters', zlib.crc32(parameters.tobytes(), version),
        'all must see the same run directory')

  def _require_equal(self, what: str, value: int, remedy: str) -> None:
    values = self.gather([value])[:, 0]
    others = np.flatnonzero(values != values[0])
    if others.size:
      raise config_lib.UserError(
          f'learner {others[0]} has {what} than learner 0; {remedy}')

  def concatenate(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Concatenates each array with the other learners', along the last axis."""
    flat = [array.astype(np.float64).ravel() for array in arrays]
    rows = self.gather(np.concatenate(flat))
    ends = np.cumsum([array.size for array in arrays])
    groups = np.split(rows, ends[:-1], axis=1)  # [N, size] for each array.
    return [
        np.concatenate([row.reshape(array.shape) for row in group], axis=-1)
        .astype(array.dtype) for array, group in zip(arrays, groups)]

  def agree(self, has_batch: bool, must_stop: bool) -> tuple[bool, bool]:
    """Returns whether all learners have a batch, and whether any must stop."""
    num_ready, num_stopping = self.gather([has_batch, must_stop]).sum(axis=0)
    return num_ready == self.number, num_stopping > 0


def alone() -> Learners:
  """Makes the group of a single learner, on TPUs, GPUs or else the CPU."""
  if tf.config.list_physical_devices('TPU'):
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu='local')
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return Learners(tf.distribute.TPUStrategy(resolver))
  _grow_memory()
  gpus = tf.config.list_logical_devices('GPU')
  if len(gpus) > 1:
    return Learners(tf.distribute.MirroredStrategy())
  return Learners(
      tf.distribute.OneDeviceStrategy('/gpu:0' if gpus else '/cpu:0'))


def _grow_memory() -> None:
  """Makes TensorFlow allocate GPUs' memory as needed, not all at once."""
  with contextlib.suppress(RuntimeError):  # The user's code came before.
    for gpu in tf.config.list_physical_devices('GPU'):
      tf.config.experimental.set_memory_growth(gpu, True)


def join(task: int, addresses: Sequence[str], poll: waiting.PollFn) -> Learners:
  """Waits for the learners at 'host:port'; connects this one, `task`, to them.

  Must be called before TensorFlow has computed anything in this process.
  TensorFlow handles SIGTERM during the call: set handlers afterwards. `poll` is
  called repeatedly with the cause while learners are missing, and may raise.
  Raises ConfigError on a TPU, PeerLost if the connection fails.
  """
  if tf.config.list_physical_devices('TPU'):
    raise config_lib.ConfigError(
        'several learners are for GPUs and CPUs, but here is a TPU, all of '
        'whose cores are one learner\'s; set LearnerConfig.num_learners = 1')
  _grow_memory()
  _meet(task, addresses, poll)
  print(f'connecting {", ".join(addresses)}; if it ends here, after '
        f'{_CONNECT_SECS:.0f} s, these addresses differ between learners, or '
        'one is of something else', flush=True)
  # TensorFlow connects with Python's lock held, so that no other thread and no
  # handler of a signal would run. If a learner dies just then, this ends the
  # process with a traceback and exit code 1.
  try:
    with ending_after(_CONNECT_SECS):
      cluster = tf.train.ClusterSpec({'worker': list(addresses)})
      strategy = tf.distribute.MultiWorkerMirroredStrategy(
          tf.distribute.cluster_resolver.SimpleClusterResolver(
              cluster, task_type='worker', task_id=task, rpc_layer='grpc',
              num_accelerators={
                  'GPU': len(tf.config.list_physical_devices('GPU'))}))
      return _Together(strategy, task, addresses)
  except tf.errors.OpError as error:
    raise waiting.PeerLost(
        f'learners did not come together: {error.message}') from error


def _meet(own: int, addresses: Sequence[str], poll: waiting.PollFn) -> None:
  """Waits until every learner but `own` has listened at its address."""
  port = int(addresses[own].rpartition(':')[2])
  absent = [task for task in range(len(addresses)) if task != own]
  with ports.bound(port) as server:
    server.listen()
    while True:
      absent = [task for task in absent if not _listens(addresses[task])]
      if not absent:
        return  # Learners that look here later find TensorFlow's server.
      poll(f'not there: {_names(addresses, absent)}')
      time.sleep(_POLL_SECS)


@contextlib.contextmanager
def ending_after(secs: float) -> Iterator[None]:
  """Ends this process, with tracebacks, if the context lasts over `secs`.

  With TensorFlow's own timeout, each message would leave two threads that sleep
  until the timeout has passed: thousands of them.
  """
  faulthandler.dump_traceback_later(secs, exit=True)
  try:
    yield
  finally:
    faulthandler.cancel_dump_traceback_later()


def _listens(address: str) -> bool:
  with contextlib.suppress(OSError):
    waiting.connect(address, _PROBE_SECS)
    return True
  return False


def _names(addresses: Sequence[str], tasks: Sequence[int]) -> str:
  return ', '.join(f'learner {task} ({addresses[task]})' for task in tasks)


class _Together(Learners):

  def __init__(self, strategy: tf.distribute.Strategy, task: int,
               addresses: Sequence[str]):
    super().__init__(strategy, task, len(addresses))
    self._addresses = addresses
    self._num_local = len(strategy.extended.worker_devices)
    self._gather = tf.function(self._in_graph, autograph=False)

  def _in_graph(self, row: tf.Tensor) -> tf.Tensor:
    """Gathers rows [K] to [replicas, K] by a sum; `all_gather` sends twice."""
    number = self.strategy.num_replicas_in_sync

    def gather():
      context = tf.distribute.get_replica_context()
      i = context.replica_id_in_sync_group
      return context.all_reduce(
          tf.distribute.ReduceOp.SUM,
          tf.pad(row[tf.newaxis], [[i, number - 1 - i], [0, 0]]))

    rows = self.strategy.run(gather)
    return self.strategy.experimental_local_results(rows)[0]

  def gather(self, numbers: Sequence[float]) -> np.ndarray:
    with self.updating():
      rows = self._gather(tf.constant(numbers, tf.float64)).numpy()
    return rows[::self._num_local]  # Devices of one learner have equal rows.

  @contextlib.contextmanager
  def updating(self):
    with self.noticing_loss(), ending_after(_TIMEOUT_SECS):
      yield

  @contextlib.contextmanager
  def noticing_loss(self):
    try:
      yield
    except _LOSSES as error:
      raise waiting.PeerLost(
          f'learner {self.task} has lost {self._lost()}; to go on from the '
          'last checkpoint start all learners anew '
          f'({type(error).__name__})'
      ) from error

  def _lost(self) -> str:
    """Names the learners that no longer listen; all others if none is gone."""
    others = [task for task in range(self.number) if task != self.task]
    until = time.monotonic() + _DYING_SECS
    while True:
      absent = [task for task in others if not _listens(self._addresses[task])]
      if absent:
        return _names(self._addresses, absent)
      if time.monotonic() > until:
        return (f'{_names(self._addresses, others)}, where something still '
                'listens')
      time.sleep(_POLL_SECS)
