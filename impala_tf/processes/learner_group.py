"""Learners that take each step together, alone or several of them.

Each of several learners is a process with a queue, actors and devices of its
own. TensorFlow's MultiWorkerMirroredStrategy keeps their parameters equal:
gradients are summed over all, and since losses are sums, an update is that of
one learner with all their batches as one (figure 1 of the paper, right).

An update waits for all, so all must agree to make it: a learner that stopped by
itself would leave the others waiting. So they take turns. In each, every
learner says whether it has a batch and whether it was asked to stop; they
update when all have one, and stop together when one is to. A turn is short,
and so no learner waits for long in one, where it would hear no signals. It
costs a message of 16 bytes for each update, and one every half second while a
learner has no batch because its actors are slow.

Once a learner is lost nothing is saved, and all processes start again from the
last checkpoint. So do actors, whose unrolls would be newer than the parameters.
"""

import contextlib
import faulthandler
import os
import socket
import time
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence
import zlib

import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import config_fingerprint
from impala_tf import types
from impala_tf.processes import host as host_lib
from impala_tf.processes import waiting
from impala_tf.storage import files

_POLL_SECS = 0.5
_PROBE_SECS = 1.
_CONNECT_SECS = 120.
_TURN_SECS = 0.5
# Of a learner that is dead or stopped TensorFlow tells sooner. It is for one
# that is neither, but does not go on; first updates and checkpoints take long.
_TIMEOUT_SECS = 300.
# A process that is killed closes what it has open one by one: those connected
# to it may hear of its end before its port is free.
_DYING_SECS = 5.
# What collective operations raise when another process has gone.
_LOSSES = (tf.errors.UnavailableError, tf.errors.AbortedError,
           tf.errors.CancelledError, tf.errors.DeadlineExceededError,
           tf.errors.FailedPreconditionError, tf.errors.InternalError)


class Place(NamedTuple):
  """Which of several learners this process is.

  Attributes:
    task: from 0 on; 0 is the chief, who writes what there is only one of.
    addresses: 'host:port' of each, where learners reach one another. It is not
      where their actors do.
  """
  task: int
  addresses: Sequence[str]


class Learners:
  """All learners of a run as one of them sees them; here it is alone.

  Attributes:
    strategy: over the devices of all.
    task: which of them it is.
    number: how many there are.
  """

  def __init__(self, strategy: tf.distribute.Strategy, task: int = 0,
               number: int = 1):
    self.strategy = strategy
    self.task = task
    self.number = number

  @property
  def is_chief(self) -> bool:
    """Whether it is this one that writes checkpoints."""
    return self.task == 0

  def noticing_loss(self) -> contextlib.AbstractContextManager:
    """Within, PeerLost is raised where another learner has gone."""
    return contextlib.nullcontext()

  def own_directory(self, run_dir: str) -> str:
    """Where it writes what each learner has of its own, such as logs."""
    return run_dir

  def require_same(self, config: config_lib.Config, num_threads: int) -> None:
    """Raises UserError where another learner would compute other numbers."""

  def require_same_parameters(self, parameters: np.ndarray,
                              version: int) -> None:
    """Raises UserError where another has restored another checkpoint.

    A learner that restored nothing, because it sees another directory, would
    otherwise learn on without a word.
    """

  def concatenate(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
    """Each array with those of the other learners behind it, last axis."""
    return list(arrays)

  def wrap_reader(self, reader: Any) -> Any:
    """A `dataset.BatchReader` that waits for all."""
    return reader

  def wrap_learner(self, learner: Any) -> Any:
    """A `learner.Learner` that tells when another is lost."""
    return learner


def alone() -> Learners:
  """A learner on the accelerators that are there: TPUs, GPUs or the CPU."""
  return Learners(_local_strategy())


def _local_strategy() -> tf.distribute.Strategy:
  if tf.config.list_physical_devices('TPU'):
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu='local')
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)
  gpus = tf.config.list_logical_devices('GPU')
  if len(gpus) > 1:
    return tf.distribute.MirroredStrategy()
  return tf.distribute.OneDeviceStrategy('/gpu:0' if gpus else '/cpu:0')


def join(place: Place, poll: waiting.PollFn) -> Learners:
  """Waits for all learners; before TensorFlow has computed anything here.

  TensorFlow takes SIGTERM for itself meanwhile; handlers must be set after it.

  Args:
    place: of this one.
    poll: is called over and over with the cause why not yet, and may raise.

  Raises:
    ConfigError: on a TPU.
    PeerLost: where they did not come together.
  """
  if tf.config.list_physical_devices('TPU'):
    raise config_lib.ConfigError(
        'several learners are for GPUs and CPUs, but here is a TPU, all of '
        'whose cores are one learner\'s; set LearnerConfig.num_learners = 1')
  _meet(place, poll)
  # TensorFlow connects with Python's lock held: no other thread and no handler
  # of a signal would run. If one of the others dies just now, this ends the
  # process, with a traceback and exit code 1.
  faulthandler.dump_traceback_later(_CONNECT_SECS, exit=True)
  try:
    return _Together(_strategy(place), place)
  except tf.errors.OpError as error:
    raise waiting.PeerLost(
        f'learners did not come together: {error.message}') from error
  finally:
    faulthandler.cancel_dump_traceback_later()


def _meet(place: Place, poll: waiting.PollFn) -> None:
  """Returns when each of the others has been at its address."""
  port = int(place.addresses[place.task].rpartition(':')[2])
  absent = [task for task in range(len(place.addresses)) if task != place.task]
  with socket.create_server(('::', port), family=socket.AF_INET6,
                            dualstack_ipv6=True):
    while True:
      absent = [task for task in absent if not _listens(place.addresses[task])]
      if not absent:
        return  # Some look here only now, and find TensorFlow.
      poll(f'not there: {_names(place, absent)}')
      time.sleep(_POLL_SECS)


def _strategy(place: Place) -> tf.distribute.MultiWorkerMirroredStrategy:
  cluster = tf.train.ClusterSpec({'worker': list(place.addresses)})
  return tf.distribute.MultiWorkerMirroredStrategy(
      tf.distribute.cluster_resolver.SimpleClusterResolver(
          cluster, task_type='worker', task_id=place.task, rpc_layer='grpc',
          num_accelerators={
              'GPU': len(tf.config.list_physical_devices('GPU'))}),
      tf.distribute.experimental.CommunicationOptions(
          timeout_seconds=_TIMEOUT_SECS))


def _listens(address: str) -> bool:
  host, _, port = address.rpartition(':')
  try:
    socket.create_connection(
        (host.strip('[]'), int(port)), _PROBE_SECS).close()
    return True
  except OSError:
    return False


def _names(place: Place, tasks: Iterable[int]) -> str:
  return ', '.join(f'learner {task} ({place.addresses[task]})'
                   for task in tasks)


class _Together(Learners):
  """The same of several."""

  def __init__(self, strategy: tf.distribute.Strategy, place: Place):
    super().__init__(strategy, place.task, len(place.addresses))
    self._place = place
    self._num_local = len(strategy.extended.worker_devices)
    self._gather = tf.function(self._in_graph, autograph=False)

  def _in_graph(self, row: tf.Tensor) -> tf.Tensor:
    """[K] to [replicas, K], by one message; `all_gather` would send two."""
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
    """The numbers of all; each learner must call this, in the same order.

    Args:
      numbers: [K], as many as every other learner's.

    Returns:
      float64 [N, K].

    Raises:
      PeerLost: where another learner has gone.
    """
    with self.noticing_loss():
      rows = self._gather(tf.constant(numbers, tf.float64)).numpy()
    return rows[::self._num_local]  # All devices of a learner say the same.

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
    """Who has gone: those at whose address nothing listens any more."""
    others = [task for task in range(self.number) if task != self.task]
    until = time.monotonic() + _DYING_SECS
    while True:
      absent = [task for task in others
                if not _listens(self._place.addresses[task])]
      if absent:
        return _names(self._place, absent)
      if time.monotonic() > until:
        return f'{_names(self._place, others)}, where something still listens'
      time.sleep(_POLL_SECS)

  def own_directory(self, run_dir: str) -> str:
    if self.is_chief:
      return run_dir
    path = os.path.join(run_dir, f'learner_{self.task}')
    files.make_directory(path)
    return path

  def require_same(self, config: config_lib.Config, num_threads: int) -> None:
    self._require_equal(
        'another config', int(config_fingerprint.of_config(config), 16),
        'start all with the same')
    # Sums are rounded in another order where more threads share them.
    self._require_equal('another number of threads', num_threads,
                        'set LearnerConfig.num_threads')

  def require_same_parameters(self, parameters: np.ndarray,
                              version: int) -> None:
    self._require_equal(
        'other parameters', zlib.crc32(parameters.tobytes(), version),
        'all must see the same run directory')

  def _require_equal(self, what: str, value: int, remedy: str) -> None:
    values = self.gather([value])[:, 0]
    others = np.flatnonzero(values != values[0])
    if others.size:
      raise config_lib.UserError(
          f'learner {others[0]} has {what} than learner 0; {remedy}')

  def concatenate(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
    flat = [array.astype(np.float64).ravel() for array in arrays]
    rows = self.gather(np.concatenate(flat))
    parts = np.split(rows, np.cumsum([part.size for part in flat])[:-1], axis=1)
    return [
        np.concatenate([row.reshape(array.shape) for row in part], axis=-1)
        .astype(array.dtype) for array, part in zip(arrays, parts)]

  def wrap_reader(self, reader: Any) -> Any:
    return _Reader(reader, self)

  def wrap_learner(self, learner: Any) -> Any:
    return _Learner(learner, self)


class _Reader:
  """Hands over a batch when every learner has one.

  Attributes:
    wait_secs: seconds spent in `next` so far, for others too.
  """

  def __init__(self, reader: Any, learners: _Together):
    self.wait_secs = 0.
    self._reader = reader
    self._learners = learners

  def next(self, host: host_lib.LearnerHost) -> Optional[types.Unroll]:
    """Returns a batch when all have one, or None once one is to stop."""
    start = time.monotonic()
    try:
      unroll = None
      while True:
        if unroll is None:
          unroll = self._reader.next(_Turn(host))
        num_ready, num_stopping = self._learners.gather(
            [unroll is not None, host.should_stop()]).sum(axis=0)
        if num_stopping:
          return None
        if num_ready == self._learners.number:
          return unroll
    finally:
      self.wait_secs += time.monotonic() - start


class _Turn(host_lib.LearnerHost):
  """A host that also stops once a turn has taken long enough."""

  def __init__(self, host: host_lib.LearnerHost):
    self._host = host
    self._end = time.monotonic() + _TURN_SECS

  def should_stop(self) -> bool:
    return self._host.should_stop() or time.monotonic() > self._end

  def on_wait(self) -> None:
    self._host.on_wait()


class _Learner:
  """A `learner.Learner` among several."""

  def __init__(self, learner: Any, learners: _Together):
    self.num_updates = learner.num_updates
    self.num_frames = learner.num_frames
    self.hyperparameters = learner.hyperparameters
    self._learner = learner
    self._learners = learners

  def update(self, unroll: types.Unroll) -> Any:
    """As that of `learner.Learner`; raises PeerLost."""
    with self._learners.noticing_loss():
      return self._learner.update(unroll)
