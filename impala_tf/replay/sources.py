"""The replayed part of each batch: uniform, prioritised, shared, by episodes.

Each replay joins the queue's unrolls with its own.
"""

import dataclasses
from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from impala_tf import types
from impala_tf.comms import packing
from impala_tf.comms import sampling
from impala_tf.comms import unroll_filter
from impala_tf.replay import episodes
from impala_tf.replay import priorities
from impala_tf.runtime import interfaces


@dataclasses.dataclass(frozen=True)
class UniformReplay:
  """A source of single unrolls that are sampled uniformly.

  Unrolls of another fingerprint, or that are not finite, are rejected.
  """
  source: sampling.Source
  packed: packing.Packing
  fingerprint: int

  def join(self, fresh: tf.data.Dataset, num_fresh: int
           ) -> Iterable[types.Unroll]:
    """Joins batches of the queue with replayed unrolls, which come last.

    `fresh` are batches of samples, columns [num_fresh, N]. They are waited for
    first: then the replay has them, too. Returns time-major batches whose
    `origin` marks the replayed unrolls.
    """
    sampled = sampling.batches(self.source, self._is_taken())

    @sampling.without_autograph
    def join(new, old):
      columns = [tf.concat(pair, axis=0) for pair in zip(new.data, old.data)]
      return sampling.time_major(self.packed.unpack(columns)._replace(
          origin=self._origin(num_fresh, columns, old.info)))

    return sampling.never_ahead(tf.data.Dataset.zip((fresh, sampled)).map(join))

  def _is_taken(self) -> unroll_filter.TakesFn:
    # Refused unrolls are already counted at the queue.
    return unroll_filter.refusing(self.packed, self.fingerprint, None)

  def _origin(self, num_fresh: int, columns: Sequence[tf.Tensor], info: Any
              ) -> types.Origin:
    """Marks the replayed unrolls of a batch; `info` is their `SampleInfo`."""
    del columns, info
    return types.Origin(tf.constant(
        [False] * num_fresh + [True] * self.source.num_unrolls))


@dataclasses.dataclass(frozen=True)
class PrioritisedReplay(UniformReplay):
  """A source of unrolls sampled by priority, with correcting weights."""
  correction: float  # See `priorities.weights`.

  def _origin(self, num_fresh: int, columns: Sequence[tf.Tensor], info: Any
              ) -> types.Origin:
    weights = priorities.weights(
        info.probability, info.table_size, self.correction)
    return super()._origin(num_fresh, columns, info)._replace(
        weights=tf.concat([tf.ones([num_fresh]), weights], axis=0),
        keys=tf.concat([tf.zeros([num_fresh], tf.uint64), info.key], axis=0))


@dataclasses.dataclass(frozen=True)
class SharedReplay(UniformReplay):
  """A source of all agents' unrolls, which marks those of other agents."""
  agent: int
  refusals: unroll_filter.Refusals | None  # Counts rejected unrolls.

  def _is_taken(self) -> unroll_filter.TakesFn:
    return unroll_filter.refusing(
        self.packed, self.fingerprint, self.refusals, is_shared=True)

  def _origin(self, num_fresh: int, columns: Sequence[tf.Tensor], info: Any
              ) -> types.Origin:
    return super()._origin(num_fresh, columns, info)._replace(
        is_foreign=tf.not_equal(self.packed.agents(columns), self.agent))


@dataclasses.dataclass(frozen=True)
class EpisodeReplay(UniformReplay):
  """A source of unrolls from episodes sampled whole; see `episodes`."""
  # Function from replayed unrolls, leading [T+1, B], to the memory after them;
  # None: unrolls keep the actors' memory.
  recompute: episodes.RecomputeFn | None

  def join(self, fresh: tf.data.Dataset, num_fresh: int
           ) -> Iterator[types.Unroll]:
    unpack, recompute = self.packed.unpack, self.recompute
    fresh = sampling.never_ahead(fresh.map(
        sampling.without_autograph(lambda sample: unpack(sample.data))))
    replayed = episodes.read(
        self._chains(), self.source.num_unrolls, self.packed,
        recompute and (lambda unroll: recompute(sampling.time_major(unroll))))
    origin = self._origin(num_fresh, [], None)

    def batches():
      # Fresh ones are waited for first, as they are without episodes.
      for pair in zip(fresh, replayed):
        both = tf.nest.map_structure(
            lambda *parts: tf.concat(parts, axis=0), *pair)
        yield sampling.time_major(both)._replace(origin=origin)

    return batches()

  def _chains(self) -> tf.data.Dataset:
    """Samples chains of accepted unrolls only: tuples of columns [n, N]."""
    is_taken = self._is_taken()
    chains = sampling.samples(self.source).filter(sampling.without_autograph(
        lambda sample: tf.reduce_all(tf.map_fn(
            is_taken, tuple(sample.data), fn_output_signature=tf.bool))))
    return sampling.never_ahead(chains.map(
        sampling.without_autograph(lambda sample: tuple(sample.data))))


@dataclasses.dataclass(frozen=True)
class ReplayColumns:
  """A callback that adds replayed unrolls' mean lag and other agents' share."""
  num_replayed: int
  # Joins arrays [B] with those of all other learners.
  gather: Callable[[Sequence[np.ndarray]], list[np.ndarray]]

  def after_update(self, update: interfaces.Update) -> None:
    origin = update.batch.origin
    is_foreign = (origin.is_foreign.numpy() if origin.is_of_several_agents
                  else np.zeros(update.lags.shape, bool))
    lags, foreign = self.gather([array[-self.num_replayed:]
                                 for array in (update.lags, is_foreign)])
    if origin.is_of_several_agents:
      update.metrics['replayed/foreign_share'] = np.mean(foreign)
      # Other agents count other updates. So did this one before a kill made it
      # go on from an older checkpoint: those unrolls are of the future.
      lags = lags[~foreign & (lags >= 0)]
    if lags.size:
      update.metrics['replayed/policy_lag'] = np.mean(lags)
