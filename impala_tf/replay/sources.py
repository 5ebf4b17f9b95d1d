"""The replayed part of each batch: uniform, prioritised, shared, by episodes.

Each class joins the queue's unrolls with its own.
"""

from typing import Any, Iterable, Iterator, Optional, Sequence

import tensorflow as tf

from impala_tf import types
from impala_tf.comms import packing
from impala_tf.comms import sampling
from impala_tf.comms import unroll_filter
from impala_tf.replay import episodes
from impala_tf.replay import priorities


class UniformReplay:
  """Single unrolls that are sampled uniformly."""

  def __init__(self, source: sampling.Source, packed: packing.Packing,
               fingerprint: int):
    """Stores the source.

    Unrolls with another fingerprint of the config, or that are not finite, are
    left out.
    """
    self._source = source
    self._packed = packed
    self._fingerprint = fingerprint

  def join(self, fresh: tf.data.Dataset, num_fresh: int
           ) -> Iterable[types.Unroll]:
    """Joins batches of the queue with replayed unrolls, which come last.

    `fresh` are batches of samples, columns [num_fresh, N]. They are waited for
    first: then the replay has them, too. Returns time-major batches whose
    `origin` marks the replayed unrolls.
    """
    sampled = sampling.batches(self._source, self._is_taken())

    @sampling.without_autograph
    def join(new, old):
      columns = [tf.concat(pair, axis=0) for pair in zip(new.data, old.data)]
      origin = self._origin(num_fresh, columns, old.info)
      return sampling.time_major(
          self._packed.unpack(columns)._replace(origin=origin))

    return sampling.never_ahead(
        tf.data.Dataset.zip((fresh, sampled)).map(join))

  def _is_taken(self) -> unroll_filter.TakesFn:
    """Makes the filter; refused unrolls are already counted at the queue."""
    return unroll_filter.refusing(self._packed, self._fingerprint, None)

  def _origin(self, num_fresh: int, columns: Sequence[tf.Tensor], info: Any
              ) -> types.Origin:
    """Marks the unrolls of a batch; `info` says how the old were sampled."""
    del columns, info
    return types.Origin(_is_replayed(num_fresh, self._source.num_unrolls))


class PrioritisedReplay(UniformReplay):
  """Unrolls that are sampled by priority, whose losses are corrected for it."""

  def __init__(self, source: sampling.Source, packed: packing.Packing,
               fingerprint: int, correction: float):
    """Stores the source; for `correction` see `priorities.weights`."""
    super().__init__(source, packed, fingerprint)
    self._correction = correction

  def _origin(self, num_fresh: int, columns: Sequence[tf.Tensor], info: Any
              ) -> types.Origin:
    weights = priorities.weights(
        info.probability, info.table_size, self._correction)
    return super()._origin(num_fresh, columns, info)._replace(
        weights=tf.concat([tf.ones([num_fresh]), weights], axis=0),
        keys=tf.concat([tf.zeros([num_fresh], tf.uint64), info.key], axis=0))


class SharedReplay(UniformReplay):
  """Unrolls of all agents that share the replay; those of others are marked."""

  def __init__(self, source: sampling.Source, packed: packing.Packing,
               fingerprint: int, agent: int,
               refusals: Optional[unroll_filter.Refusals]):
    """Stores the source; `refusals` counts unrolls of others left out."""
    super().__init__(source, packed, fingerprint)
    self._agent = agent
    self._refusals = refusals

  def _is_taken(self) -> unroll_filter.TakesFn:
    return unroll_filter.refusing(
        self._packed, self._fingerprint, self._refusals, is_shared=True)

  def _origin(self, num_fresh: int, columns: Sequence[tf.Tensor], info: Any
              ) -> types.Origin:
    return super()._origin(num_fresh, columns, info)._replace(
        is_foreign=tf.not_equal(self._packed.agents(columns), self._agent))


class EpisodeReplay(UniformReplay):
  """Unrolls of episodes, which are sampled whole; see `episodes`."""

  def __init__(self, source: sampling.Source, packed: packing.Packing,
               fingerprint: int, recompute: Optional[episodes.RecomputeFn]):
    """Stores the source.

    `recompute` computes the memory after replayed unrolls, leading [T+1, B];
    None: memory stays as the actors had it.
    """
    super().__init__(source, packed, fingerprint)
    self._recompute = recompute and (
        lambda unroll: recompute(sampling.time_major(unroll)))

  def join(self, fresh: tf.data.Dataset, num_fresh: int
           ) -> Iterable[types.Unroll]:
    unpack = self._packed.unpack
    fresh = sampling.never_ahead(fresh.map(
        sampling.without_autograph(lambda sample: unpack(sample.data))))
    return _joined(fresh, episodes.read(
        self._chains(), self._source.num_unrolls, self._packed,
        self._recompute), types.Origin(
            _is_replayed(num_fresh, self._source.num_unrolls)))

  def _chains(self) -> tf.data.Dataset:
    """Samples chains whose unrolls are all taken: tuples of columns [n, N]."""
    is_taken = self._is_taken()
    chains = sampling.samples(self._source).filter(sampling.without_autograph(
        lambda sample: tf.reduce_all(tf.map_fn(
            is_taken, tuple(sample.data), fn_output_signature=tf.bool))))
    return sampling.never_ahead(chains.map(
        sampling.without_autograph(lambda sample: tuple(sample.data))))


def _joined(fresh: Iterable[types.Unroll], replayed: Iterable[types.Unroll],
            origin: types.Origin) -> Iterator[types.Unroll]:
  """Yields batches of fresh and of replayed unrolls, leading [B, T+1]."""
  # Fresh ones are waited for first, as they are without episodes.
  for new, old in zip(fresh, replayed):
    both = tf.nest.map_structure(
        lambda *parts: tf.concat(parts, axis=0), new, old)
    yield sampling.time_major(both)._replace(origin=origin)


def _is_replayed(num_fresh: int, num_replayed: int) -> tf.Tensor:
  return tf.constant([False] * num_fresh + [True] * num_replayed)
