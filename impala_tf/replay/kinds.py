"""Metrics by kind of unroll: fresh or replayed, of this agent or of others."""

from typing import Callable, Dict, List, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from impala_tf import types
from impala_tf.runtime import interfaces

_IS_FOREIGN = 'is_foreign'


class Kinds(NamedTuple):
  """The kinds of unrolls in batches that are partly replayed."""
  num_replayed: int  # Unrolls of a batch, its last ones, that are replayed.
  # Whether a batch has others that are learned from.
  learns_from_fresh: bool = True

  def marks(self, origin: types.Origin) -> Dict[str, tf.Tensor]:
    """Returns columns, float32 [B], that `split` needs of a batch's unrolls."""
    if not origin.is_of_several_agents:
      return {}
    return {_IS_FOREIGN: tf.cast(origin.is_foreign, tf.float32)}

  def split(self, name: str, values: tf.Tensor, marks: Dict[str, tf.Tensor]
            ) -> Dict[str, tf.Tensor]:
    """Splits a metric of unrolls, [N, B] of N learners at once, by kind.

    Returns it under `name`, 'replayed/' and 'fresh/'; if a replay is shared,
    under 'own/' and 'foreign/', too. `marks` are those of `marks`, [N, B] each.
    """
    replayed = values[:, -self.num_replayed:]
    kinds = {name: values, f'replayed/{name}': replayed}
    if marks:
      is_foreign = marks[_IS_FOREIGN][:, -self.num_replayed:] > 0
      kinds[f'own/{name}'] = tf.boolean_mask(replayed, ~is_foreign)
      kinds[f'foreign/{name}'] = tf.boolean_mask(replayed, is_foreign)
    if self.learns_from_fresh:
      kinds[f'fresh/{name}'] = values[:, :-self.num_replayed]
    return kinds


class ReplayColumns:
  """A callback that adds what is known of replayed unrolls to the metrics."""

  def __init__(self, num_replayed: int, gather: Callable[
      [Sequence[np.ndarray]], List[np.ndarray]]):
    """Begins; `gather` joins arrays [B] with those of all other learners."""
    self._num_replayed = num_replayed
    self._gather = gather

  def after_update(self, update: interfaces.Update) -> None:
    """Adds their mean policy lag, and the share that other agents played."""
    origin = update.batch.origin
    is_foreign = (origin.is_foreign.numpy() if origin.is_of_several_agents
                  else np.zeros(update.lags.shape, bool))
    lags, foreign = self._gather([array[-self._num_replayed:]
                                  for array in (update.lags, is_foreign)])
    if origin.is_of_several_agents:
      update.metrics['replayed/foreign_share'] = np.mean(foreign)
      # Other agents count updates of their own. So did this one before a kill
      # made it go on from an older checkpoint: those unrolls are of the future.
      lags = lags[~foreign & (lags >= 0)]
    if lags.size:
      update.metrics['replayed/policy_lag'] = np.mean(lags)
