"""Metrics of replayed unrolls alone."""

import dataclasses
from typing import Callable, List, Sequence

import numpy as np

from impala_tf.runtime import interfaces


@dataclasses.dataclass(frozen=True)
class ReplayColumns:
  """A callback that adds lags and agents of replayed unrolls to the metrics."""
  num_replayed: int
  # Joins arrays [B] with those of all other learners.
  gather: Callable[[Sequence[np.ndarray]], List[np.ndarray]]

  def after_update(self, update: interfaces.Update) -> None:
    """Adds their mean policy lag, and the share that other agents played."""
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
