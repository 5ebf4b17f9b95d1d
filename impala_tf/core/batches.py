"""Batches of unrolls for the learner, time-major, read from the tables."""

import queue
import threading
from typing import Any, Callable, Iterable

import tensorflow as tf

from impala_tf import types
from impala_tf.comms import packing
from impala_tf.comms import sampling
from impala_tf.comms import unroll_filter
from impala_tf.runtime import control as control_lib

_POLL_SECS = 0.2

# Function from samples of the queue, columns [n, N], and their number n to
# time-major batches of them and of replayed unrolls.
JoinFn = Callable[[tf.data.Dataset, int], Iterable[types.Unroll]]


def make_batches(source: sampling.Source, packed: packing.Packing,
                 is_taken: unroll_filter.TakesFn, join: JoinFn | None = None
                 ) -> Iterable[types.Unroll]:
  """Makes time-major batches of unrolls from the queue (`source`).

  Batches have leading [T+1, B], or [B] for fields without time. `is_taken`
  accepts unrolls singly; `join` adds replayed ones to each batch.
  """
  fresh = sampling.batches(source, is_taken)
  if join is not None:
    return join(fresh, source.num_unrolls)
  return sampling.never_ahead(fresh.map(sampling.without_autograph(
      lambda sample: sampling.time_major(packed.unpack(sample.data)))))


def place_observations(unroll: types.Unroll, device: str) -> types.Unroll:
  """Copies only observations to a device; the host reads the other fields."""
  with tf.device(device):
    observation = tf.identity(unroll.env_outputs.observation)
  return unroll._replace(
      env_outputs=unroll.env_outputs._replace(observation=observation))


class BatchReader:
  """A reader that prepares one batch ahead, and whose `poll` has a time limit.

  `next(dataset)` cannot be interrupted while the queue is empty, so a daemon
  thread calls it and hands batches over.
  """

  def __init__(self, dataset: Iterable[Any],
               prepare: Callable[[Any], Any] = lambda batch: batch,
               refusals: unroll_filter.Refusals | None = None,
               must_pause: Callable[[control_lib.LoopControl],
                                    bool] = lambda control: False,
               problem: Callable[[], str] = str):
    """Starts the thread that reads batches and calls `prepare` on each.

    `refusals` counts the unrolls that the dataset rejects. `must_pause` says
    whether to wait for other agents, and `problem` why no batch comes, if the
    cause is known.
    """
    self._dataset = dataset
    self._prepare = prepare
    self._refusals = refusals or unroll_filter.Refusals()
    self._must_pause = must_pause
    self._problem = problem
    self._batches: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # One batch ahead and no more: a queue of one would let the thread hold
    # another, a batch older for nothing.
    self._wanted = threading.Semaphore(1)
    threading.Thread(target=self._read, daemon=True).start()

  def poll(self, control: control_lib.LoopControl) -> types.Unroll | None:
    """Returns the next batch, or None if none comes within a fifth of a second.

    Then it has reported the cause to `control`. Raises RuntimeError if reading
    failed, UserError if all unrolls are rejected.
    """
    if self._must_pause(control):
      return None
    try:
      item = self._batches.get(timeout=_POLL_SECS)
    except queue.Empty:
      self._refusals.check()
      control.on_wait(self._problem())
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
