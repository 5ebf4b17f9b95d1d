"""The learner's end of the tables: batches of unrolls, time-major."""

import queue
import threading
from typing import Any, Callable, Iterable, NamedTuple, Optional, Protocol

import tensorflow as tf

from impala_tf import types
from impala_tf.comms import packing
from impala_tf.comms import sampling
from impala_tf.comms import unroll_filter
from impala_tf.runtime import control as control_lib

_POLL_SECS = 0.2


class Replay(Protocol):
  """The replayed part of each batch; see `replay.sources`."""

  def join(self, fresh: tf.data.Dataset, num_fresh: int
           ) -> Iterable[types.Unroll]:
    """Joins batches of the queue, columns [num_fresh, N], with replayed ones.

    Returns time-major batches in which the fresh unrolls come first.
    """


class Pace(Protocol):
  """The pace of agents that share a replay; see `pacing.Pacemaker`."""

  @property
  def problem(self) -> str:
    """Why the replay gives no unrolls; empty if it does."""

  def must_pause(self, control: control_lib.LoopControl) -> bool:
    """Waits for a moment if another agent is too far behind."""


class Filter(NamedTuple):
  """Which unrolls are taken from the queue.

  Attributes:
    fingerprint: fingerprint of the config; unrolls with another are left out,
      as are, without `first_version`, those that are not finite.
    refusals: counts unrolls that are left out; None: nobody counts.
    agent: only agent whose unrolls are taken; None for any.
    first_version: version of the first batch's unrolls if each batch must have
      one version, one more than the batch before; others are left out. None:
      unrolls of any version are taken.
  """
  fingerprint: int = 0
  refusals: Optional[unroll_filter.Refusals] = None
  agent: Optional[int] = None
  first_version: Optional[int] = None


_ANY = Filter()


def make_batches(source: sampling.Source, packed: packing.Packing,
                 wanted: Filter = _ANY, replay: Optional[Replay] = None
                 ) -> Iterable[types.Unroll]:
  """Makes batches from Reverb tables.

  Args:
    source: the queue, whose unrolls come in its order.
    packed: layout of unrolls in columns.
    wanted: which unrolls of the queue are taken.
    replay: gives the other unrolls of each batch; None for none.

  Returns:
    Iterable of `types.Unroll` with leading [T+1, B] ([B] for fields without
    time); if any are replayed, `origin` marks them.
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

  Attributes:
    refusals: counts the unrolls that were left out, by sender.
  """

  def __init__(self, dataset: Iterable[Any],
               prepare: Callable[[Any], Any] = lambda batch: batch,
               refusals: Optional[unroll_filter.Refusals] = None,
               pace: Optional[Pace] = None):
    """Starts the thread that reads.

    Args:
      dataset: iterable of batches.
      prepare: function that is applied to each batch ahead of time.
      refusals: counts the unrolls that the dataset leaves out.
      pace: says whether to wait for other agents, and why no batch comes; None
        if no replay is shared.
    """
    self._dataset = dataset
    self._prepare = prepare
    self.refusals = refusals or unroll_filter.Refusals()
    self._pace = pace
    self._batches: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # One batch ahead and no more: a queue of one would let the thread hold
    # another, a batch older for nothing.
    self._wanted = threading.Semaphore(1)
    threading.Thread(target=self._read, daemon=True).start()

  def poll(self, control: control_lib.LoopControl) -> Optional[types.Unroll]:
    """Returns the next batch, or None if none comes within a fifth of a second.

    Then `control` has heard why.

    Raises:
      RuntimeError: reading failed.
      UserError: all unrolls are left out.
    """
    if self._pace is not None and self._pace.must_pause(control):
      return None
    try:
      item = self._batches.get(timeout=_POLL_SECS)
    except queue.Empty:
      self.refusals.check()
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
        self.refusals.batch_came()
        self._batches.put(self._prepare(batch))
    except Exception as error:  # pylint: disable=broad-except
      self._batches.put(error)
