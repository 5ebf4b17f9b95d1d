"""Episodes in the replay: chains of unrolls, and their reader.

Source: Schmitt et al. 2020 (LASER), supplement, sections 1.2 and 2. There a
whole episode is sampled and stepped through from its beginning. So the newest
parameters can recompute an LSTM's states on the way.

Episodes begin inside of unrolls. One item of the replay is a chain: the unroll
in which an episode begins, then all later ones up to its end. The first only
yields the memory, which is exact after that unroll, as the episode's start
resets it. The others are learned from, each in one chain only. The unroll that
ends an episode is also the first of the next chain.

An environment's very first unroll begins with an episode. It is also a chain by
itself, so that the replay can be sampled at once. If an episode is longer than
a chain may be, the next chain begins with the memory that the actor had.
"""

from typing import Any, Callable, Iterator, NamedTuple, Sequence

import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import types
from impala_tf.comms import packing

RecomputeFn = Callable[[types.Unroll], Any]


class Chains:
  """The growing chains of an actor's last `num_kept` unrolls."""

  def __init__(self, max_unrolls: int, num_envs: int):
    """Makes empty chains; of each, at most `max_unrolls` are learned from."""
    self.num_kept = (max_unrolls + 1) * num_envs
    self._max_unrolls = max_unrolls
    self._longest_span = max_unrolls * num_envs
    self._count = 0
    self._chains: dict[int, list[int]] = {}

  def add(self, unroll: packing.PackedUnroll) -> list[int] | None:
    """Adds the newest unroll to the chain of its environment.

    Returns the places of a chain's unrolls if it is complete, else None. The
    newest unroll of any environment is at -1, the one before at -2.
    """
    row, step_type = unroll.row, unroll.unroll.env_outputs.step_type
    place = self._count
    self._count += 1
    is_first = row not in self._chains
    chain = self._chains.setdefault(row, [])
    chain.append(place)
    ends = np.any(step_type[1:] == int(dm_env.StepType.FIRST))
    # An environment slower than others fills the span with fewer unrolls.
    if not (ends or is_first or len(chain) > self._max_unrolls
            or self._count - chain[0] > self._longest_span):
      return None
    self._chains[row] = [place]
    # The oldest of a slow environment may be gone.
    kept = [p - self._count for p in chain if self._count - p <= self.num_kept]
    return kept if len(kept) > 1 or is_first else None


class _Episode(NamedTuple):
  """A chain's unrolls as columns [n, N], and the index of the next to read."""
  columns: tuple[np.ndarray, ...]
  next: int


def read(chains: tf.data.Dataset, num_unrolls: int, packed: packing.Packing,
         recompute: RecomputeFn | None = None) -> Iterator[types.Unroll]:
  """Yields batches for ever: the next unroll of each of `num_unrolls` episodes.

  After an episode's end another is sampled. With `recompute` there is one
  forward pass for each batch. It is over the last unrolls, or the first ones of
  new chains. Unrolls have leading [B, T+1], or [B] for fields without time.

  Args:
    chains: sampled chains, each a tuple of columns [n, N].
    recompute: function from unrolls to the memory before the first step of the
      next; None to use the memory that actors recorded.
  """
  sampled = iter(chains)
  episodes = [_Episode((np.zeros(0),), next=0)] * num_unrolls  # Over.
  core_state = None
  while True:
    for i, episode in enumerate(episodes):
      if episode.next == len(episode.columns[0]):
        columns = tuple(column.numpy() for column in next(sampled))
        if len(columns[0]) == 1:
          # It begins with an episode, so its start resets the memory.
          columns = tuple(np.repeat(column, 2, axis=0) for column in columns)
        episodes[i] = _Episode(columns, next=0)
    if recompute is not None:
      core_state = recompute(_before(episodes, packed, core_state))
    episodes = [e._replace(next=max(e.next, 1)) for e in episodes]
    unrolls = _stacked(packed, [(e.columns, e.next) for e in episodes])
    episodes = [e._replace(next=e.next + 1) for e in episodes]
    if recompute is not None:
      unrolls = unrolls._replace(core_state=core_state)
    yield unrolls


def _before(episodes: Sequence[_Episode], packed: packing.Packing,
            core_state: Any) -> types.Unroll:
  """Returns the unroll before each episode's next, with its core state."""
  before = _stacked(packed, [(e.columns, max(e.next - 1, 0)) for e in episodes])
  if core_state is None:  # All begin.
    return before
  begins = np.array([e.next == 0 for e in episodes])

  def choose(stored, recomputed):
    return tf.where(begins.reshape([-1] + [1] * (stored.shape.rank - 1)),
                    stored, recomputed)

  return before._replace(core_state=tf.nest.map_structure(
      choose, before.core_state, core_state))


def _stacked(packed: packing.Packing,
             rows: Sequence[tuple[tuple[np.ndarray, ...], int]]
             ) -> types.Unroll:
  return packed.unpack([
      tf.constant(np.stack([columns[i][row] for columns, row in rows]))
      for i in range(len(packed.sizes))])
