"""The learner's end of the tables: batches of unrolls, time-major."""

import queue
import threading
from typing import Any, Callable, Iterable, NamedTuple, Optional

import tensorflow as tf

from impala_tf import types
from impala_tf.comms import packing
from impala_tf.comms import sampling
from impala_tf.comms import unroll_filter
from impala_tf.replay import shared_replay
from impala_tf.replay import sources
from impala_tf.runtime import control as control_lib

_POLL_SECS = 0.2


class Filter(NamedTuple):
  """Which unrolls are taken from the queue."""
  # Fingerprint of the config; unrolls with another are left out, as are,
  # without `first_version`, those that are not finite.
  fingerprint: int = 0
  # Counts unrolls that are left out; None: nobody counts.
  refusals: Optional[unroll_filter.Refusals] = None
  # Only agent whose unrolls are taken; None for any.
  agent: Optional[int] = None
  # Version of the first batch's unrolls if each batch must have one version,
  # one more than the batch before; others are left out. None: unrolls of any
  # version are taken.
  first_version: Optional[int] = None


_ANY = Filter()


def make_batches(source: sampling.Source, packed: packing.Packing,
                 wanted: Filter = _ANY,
                 replay: Optional[sources.UniformReplay] = None
                 ) -> Iterable[types.Unroll]:
  """Makes batches from the queue (`source`), in whose order they come.

  The replay gives the other unrolls of each batch, which `origin` then marks;
  None for none. Batches have leading [T+1, B], [B] for fields without time.
  """
  is_taken = unroll_filter.refusing(
      packed, wanted.fingerprint, wanted.refusals, wanted.agent,
      # No other unroll could replace one that is not finite, so its batch is
      # skipped.
      must_be_finite=wanted.first_version is None)
  if wanted.first_version is not None:
    is_taken = unroll_filter.of_one_version(
        packed, is_taken, wanted.first_version, source.num_unrolls,
        wanted.refusals)
  fresh = sampling.batches(source, is_taken)
  if replay is not None:
    return replay.join(fresh, source.num_unrolls)
  return sampling.never_ahead(fresh.map(sampling.without_autograph(
      lambda sample: sampling.time_major(packed.unpack(sample.data)))))


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
  """

  def __init__(self, dataset: Iterable[Any],
               prepare: Callable[[Any], Any] = lambda batch: batch,
               refusals: Optional[unroll_filter.Refusals] = None,
               pace: Optional[shared_replay.Pacemaker] = None):
    """Starts the thread that reads, and prepares each batch ahead of time.

    `refusals` counts the unrolls that the dataset leaves out. `pace` says
    whether to wait for other agents; None if no replay is shared.
    """
    self._dataset = dataset
    self._prepare = prepare
    self._refusals = refusals or unroll_filter.Refusals()
    self._pace = pace
    self._batches: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # One batch ahead and no more: a queue of one would let the thread hold
    # another, a batch older for nothing.
    self._wanted = threading.Semaphore(1)
    threading.Thread(target=self._read, daemon=True).start()

  def poll(self, control: control_lib.LoopControl) -> Optional[types.Unroll]:
    """Returns the next batch, or None if none comes within a fifth of a second.

    Then `control` has heard why. Raises RuntimeError if reading failed,
    UserError if all unrolls are left out.
    """
    if self._pace is not None and self._pace.must_pause(control):
      return None
    try:
      item = self._batches.get(timeout=_POLL_SECS)
    except queue.Empty:
      self._refusals.check()
      control.on_wait('' if self._pace is None else self._pace.problem)
      return None
    if isinstance(item, Exception):
      raise RuntimeError('reading the queue failed') from item
    self._wanted.release()
    return item

  def _read(self):
    try:
      iterator = iter(self._dataset)
      while True:
        self._wanted.acquire()
        batch = next(iterator)
        self._refusals.batch_came()
        self._batches.put(self._prepare(batch))
    except Exception as error:  # pylint: disable=broad-except
      self._batches.put(error)
