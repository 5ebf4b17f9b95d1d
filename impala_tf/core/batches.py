"""The learner's end of the tables: batches of unrolls, time-major.

The only module that transposes.
"""

import queue
import threading
import time
from typing import (
  Any,
  Callable,
  Iterable,
  Iterator,
  NamedTuple,
  Optional,
  Sequence,
  Union,
)

import reverb
import tensorflow as tf

from impala_tf import types
from impala_tf.comms import packing
from impala_tf.comms import unroll_filter
from impala_tf.replay import episodes
from impala_tf.replay import priorities
from impala_tf.runtime import host as host_lib

# Two read 30 % more unrolls in a second than one, four 40 % more.
_MAX_SAMPLERS = 4
_POLL_SECS = 0.2

# No `if` or loop here depends on a tensor, and AutoGraph would leave files in
# the temporary directory of a process that does not end by itself.
_without_autograph = tf.autograph.experimental.do_not_convert


class Source(NamedTuple):
  """A table from which some unrolls of each batch come.

  Attributes:
    address: 'host:port' of its server.
    table: name of the table.
    num_unrolls: number of unrolls that each batch takes from it.
    has_episodes: whether its items are chains of unrolls; see `episodes`.
    priority_correction: beta, with which losses are corrected for priorities;
      None if unrolls are sampled uniformly.
    agent: number of this agent among those that share a replay, each of whose
      items is an unroll; None if the table is not shared.
  """
  address: str
  table: str
  num_unrolls: int
  has_episodes: bool = False
  priority_correction: Optional[float] = None
  agent: Optional[int] = None


def make_dataset(fresh: Source, spec: types.Unroll,
                 replayed: Optional[Source] = None, fingerprint: int = 0,
                 refusals: Optional[unroll_filter.Refusals] = None,
                 in_order: bool = True,
                 recompute: Optional[episodes.RecomputeFn] = None,
                 first_version: Optional[int] = None
                 ) -> Union[tf.data.Dataset, 'EpisodeBatches']:
  """Makes batches from Reverb tables.

  Args:
    fresh: the queue, whose unrolls come in its order.
    spec: shapes and dtypes of one unroll, as the tables were made for.
    replayed: the replay, which is sampled and may be on another server; None
      for none. If it is shared, unrolls of other agents are marked, and left
      out of the queue.
    fingerprint: fingerprint of the config; unrolls with another are left out,
      as are those that are not finite.
    refusals: log of unrolls of the queue, and of a shared replay, that are left
      out.
    in_order: whether the queue's order is kept exactly. It is faster to let
      neighbours change places.
    recompute: function that computes the memory after replayed unrolls with
      leading [T+1, B], if `replayed` has episodes; None: memory stays as the
      actors had it.
    first_version: version of the first batch's unrolls if each batch must have
      one version, one more than the batch before; others are left out. None:
      unrolls of any version are taken.

  Returns:
    Dataset, or another iterable, of `types.Unroll` with leading [T+1, B] ([B]
    for fields without time), where B is the sum of both sources; the fresh
    unrolls come first, and if any are replayed, `origin` marks them.
  """
  packed = packing.Packing(spec)
  unpack = packed.unpack
  agent = None if replayed is None else replayed.agent
  is_shared = agent is not None
  is_taken = unroll_filter.refusing(
      packed, fingerprint, refusals, agent,
      # None could take the place of an unroll that is not finite: its batch is
      # skipped.
      must_be_finite=first_version is None)
  if first_version is not None:
    is_taken = unroll_filter.of_one_version(
        packed, is_taken, first_version, fresh.num_unrolls, refusals)
  dataset = _batches(fresh, is_taken, in_order)
  # Fresh unrolls are waited for first: then the replay has them, too.
  # Whatever is refused here is refused, and counted, in the queue, too, but for
  # what others have sent to a shared replay.
  if replayed is None:
    dataset = dataset.map(
        _without_autograph(lambda fresh: time_major(unpack(fresh.data))))
  elif replayed.has_episodes:
    return EpisodeBatches(
        _as_it_comes(dataset.map(
            _without_autograph(lambda fresh: unpack(fresh.data)))),
        _chains(replayed, packed, fingerprint), fresh, replayed, packed,
        recompute)
  else:
    sampled = _batches(replayed, unroll_filter.refusing(
        packed, fingerprint, refusals if is_shared else None,
        is_shared=is_shared), in_order)

    @_without_autograph
    def join(new, old):
      columns = [tf.concat(pair, axis=0) for pair in zip(new.data, old.data)]
      origin = _origin(fresh, replayed, old.info)
      if is_shared:
        origin = origin._replace(
            is_foreign=tf.not_equal(packed.agents(columns), agent))
      return time_major(unpack(columns)._replace(origin=origin))

    dataset = tf.data.Dataset.zip((dataset, sampled)).map(join)
  return _as_it_comes(dataset)


def _as_it_comes(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Keeps tf.data from reading ahead."""
  # Left to itself, tf.data turns `map` parallel and prefetches: up to five more
  # batches that grow old on the way (measured: lag 9.5 instead of 4).
  options = tf.data.Options()
  options.autotune.enabled = False
  return dataset.with_options(options)


def _origin(fresh: Source, replayed: Source,
            info: Optional[reverb.SampleInfo] = None) -> types.Origin:
  """Marks fresh and replayed unrolls, and how the latter were sampled."""
  is_replayed = tf.constant(
      [False] * fresh.num_unrolls + [True] * replayed.num_unrolls)
  if replayed.priority_correction is None:
    return types.Origin(is_replayed)
  weights = priorities.weights(
      info.probability, info.table_size, replayed.priority_correction)
  return types.Origin(
      is_replayed,
      weights=tf.concat([tf.ones([fresh.num_unrolls]), weights], axis=0),
      keys=tf.concat(
          [tf.zeros([fresh.num_unrolls], tf.uint64), info.key], axis=0))


def _chains(source: Source, packed: packing.Packing, fingerprint: int
            ) -> tf.data.Dataset:
  """Samples chains whose unrolls are all taken: tuples of columns [n, N]."""
  dataset = reverb.TrajectoryDataset.from_table_signature(
      server_address=source.address, table=source.table,
      max_in_flight_samples_per_worker=1, num_workers_per_iterator=1)
  is_taken = unroll_filter.refusing(packed, fingerprint, None)
  dataset = dataset.filter(_without_autograph(
      lambda sample: tf.reduce_all(tf.map_fn(
          is_taken, tuple(sample.data), fn_output_signature=tf.bool))))
  return _as_it_comes(
      dataset.map(_without_autograph(lambda sample: tuple(sample.data))))


class EpisodeBatches:
  """Batches whose replayed unrolls come from episodes, one by one."""

  def __init__(self, fresh_unrolls: Iterable[types.Unroll],
               chains: Iterable[Sequence[tf.Tensor]], fresh: Source,
               replayed: Source, packed: packing.Packing,
               recompute: Optional[episodes.RecomputeFn]):
    """Stores the sources; see `make_dataset`.

    Args:
      fresh_unrolls: batches with leading [B, T+1].
      chains: see `episodes.EpisodeReader`.
      packed: layout of unrolls in columns.
    """
    self._fresh = fresh_unrolls
    self._replayed = episodes.EpisodeReader(
        chains, replayed.num_unrolls, packed,
        recompute and (lambda unroll: recompute(time_major(unroll))))
    self._origin = _origin(fresh, replayed)

  def __iter__(self) -> Iterator[types.Unroll]:
    """Yields batches; see `make_dataset`."""
    # Fresh ones are waited for first, as they are without episodes.
    for fresh, replayed in zip(self._fresh, self._replayed):
      both = tf.nest.map_structure(
          lambda *parts: tf.concat(parts, axis=0), fresh, replayed)
      yield time_major(both)._replace(origin=self._origin)


def _batches(source: Source, is_taken: Callable[[Any], tf.Tensor],
             in_order: bool) -> tf.data.Dataset:
  """Batches the samples of one table that pass, as columns [size, N]."""
  size = source.num_unrolls
  dataset = reverb.TrajectoryDataset.from_table_signature(
      server_address=source.address,
      table=source.table,
      # Reverb's sampler wakes up every 3 s from waiting. If it waits for more
      # than one, Reverb 0.14.0 loses what comes in that very millisecond, where
      # the server is in the same process. A run in one process counts its
      # unrolls, and would wait for the lost one for ever (seen once; of 64
      # unrolls that came at that moment three or four were lost).
      max_in_flight_samples_per_worker=1,
      # In each another unroll grows old: in all at most an eighth of a batch.
      num_workers_per_iterator=1 if in_order else
      max(1, min(_MAX_SAMPLERS, size // 8)))
  dataset = dataset.filter(
      _without_autograph(lambda sample: is_taken(sample.data)))
  # Unrolls are filtered singly, which costs 4 microseconds a step on a busy
  # machine (a function call for each). Filtering whole batches would be free,
  # but nothing could take the place of a refused unroll.
  #
  # A `map` before `batch` would be fused with it to one that works a batch
  # ahead: another batch that grows old.
  return dataset.batch(size, drop_remainder=True)


def time_major(unroll: types.Unroll) -> types.Unroll:
  """Moves time before the batch, except in fields without time."""

  def transpose(tensor):
    return tf.transpose(
        tensor, [1, 0] + list(range(2, tensor.shape.rank)))

  return unroll._replace(
      env_outputs=tf.nest.map_structure(transpose, unroll.env_outputs),
      agent_outputs=tf.nest.map_structure(transpose, unroll.agent_outputs))


def place_observations(unroll: types.Unroll, device: str) -> types.Unroll:
  """Copies observations to a device, if they are not there.

  All else is small, and the host reads it, too.
  """
  with tf.device(device):
    observation = tf.identity(unroll.env_outputs.observation)
  return unroll._replace(
      env_outputs=unroll.env_outputs._replace(observation=observation))


class BatchReader:
  """A reader that is one batch ahead and never blocks for ever.

  `next(dataset)` cannot be interrupted while the queue is empty, so a daemon
  thread calls it and hands batches over.

  Attributes:
    refusals: counts the unrolls that were left out, by sender.
  """

  def __init__(self, dataset: Iterable[Any],
               prepare: Callable[[Any], Any] = lambda batch: batch,
               refusals: Optional[unroll_filter.Refusals] = None):
    """Starts the thread that reads.

    Args:
      dataset: iterable of batches.
      prepare: function that is applied to each batch ahead of time.
      refusals: counts the unrolls that the dataset leaves out.
    """
    self._dataset = dataset
    self._prepare = prepare
    self.refusals = refusals or unroll_filter.Refusals()
    self._batches = queue.SimpleQueue()
    # One batch ahead and no more: a queue of one would let the thread hold
    # another, a batch older for nothing.
    self._wanted = threading.Semaphore(1)
    self._wait_secs = 0.
    threading.Thread(target=self._read, daemon=True).start()

  @property
  def wait_secs(self) -> float:
    """Seconds that `next` has waited so far."""
    return self._wait_secs

  def next(self, host: host_lib.LearnerHost) -> Optional[types.Unroll]:
    """Returns the next batch, or None once the host says to stop.

    While there is no batch it calls `host.on_wait` several times a second.

    Raises:
      RuntimeError: reading failed.
      UserError: all unrolls are left out.
    """
    start = time.monotonic()
    try:
      while not host.should_stop():
        try:
          item = self._batches.get(timeout=_POLL_SECS)
        except queue.Empty:
          self.refusals.check()
          host.on_wait()
          continue
        if isinstance(item, Exception):
          raise RuntimeError('reading the queue failed') from item
        self._wanted.release()
        return item
      return None
    finally:
      self._wait_secs += time.monotonic() - start

  def _read(self):
    try:
      iterator = iter(self._dataset)
      while True:
        self._wanted.acquire()
        batch = next(iterator)
        self.refusals.batch_came()
        self._batches.put(self._prepare(batch))
    except Exception as error:  # pylint: disable=broad-except
      self._batches.put(error)
