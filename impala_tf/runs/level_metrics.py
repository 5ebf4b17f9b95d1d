"""Metrics of each level of a run, and of its suite as a whole."""

import statistics
from typing import Any, Mapping, Sequence

import numpy as np

from impala_tf.runs import metrics
from impala_tf.runs import training_log
from impala_tf.suites import levels as levels_lib


class LevelLog:
  """A log of frames, returns and policy lag by level."""

  def __init__(self, levels: Sequence[str], frames: Any,
               frames_per_unroll: int):
    """Starts an empty log of L levels in the order of their indices.

    `add` updates `frames`, int64 variable [L], environment frames learned from.
    """
    self._levels = levels
    self._frames = frames
    self._frames_per_unroll = frames_per_unroll
    self._episodes = [
        training_log.EpisodeWindow(metrics.LEVEL_EPISODE_WINDOW)
        for _ in levels]
    # Levels whose returns can be normalised by a human's.
    self._suites = {level: suite for level in levels
                    if (suite := levels_lib.suite_of(level))}
    self._restart()

  def _restart(self):
    self._num_unrolls = np.zeros(len(self._levels), np.int64)
    self._lag_sums = np.zeros(len(self._levels))

  def add(self, is_first: np.ndarray, episode_return: np.ndarray,
          lags: np.ndarray, level_index: np.ndarray,
          columns: Mapping[str, np.ndarray]) -> None:
    """Counts the new unrolls of an update, by level.

    Arrays [T, B] are as in `training_log.EpisodeWindow.add`; lags, int64 [B],
    are in updates; `level_index` is int32 [B].
    """
    num_levels = len(self._levels)
    num_unrolls = np.bincount(level_index, minlength=num_levels)
    self._frames.assign_add(num_unrolls * self._frames_per_unroll)
    self._num_unrolls += num_unrolls
    self._lag_sums += np.bincount(level_index, lags, num_levels)
    for level in np.unique(level_index[is_first.any(axis=0)]):
      self._episodes[level].add(
          is_first & (level_index == level), episode_return, columns)

  def finish(self) -> metrics.Row:
    """Returns the columns 'level/<name>/…' of a row, and restarts policy lags.

    `metrics.HEADLINE` is added once each level of a suite has a return: the
    mean of human-normalised scores, each capped at 1.0 (appendix B). They are
    training scores with sampled actions.
    """
    row: metrics.Row = {}
    scores = []
    for i, (level, frames) in enumerate(zip(self._levels,
                                            self._frames.numpy())):
      row[f'level/{level}/frames'] = int(frames)
      means = self._episodes[i].means()
      row.update({f'level/{level}/{name}': mean
                  for name, mean in means.items()})
      if means and level in self._suites:
        scores.append(self._suites[level].human_normalised_score(
            level, means['episode_return']))
      if self._num_unrolls[i]:
        row[f'level/{level}/policy_lag'] = float(
            self._lag_sums[i] / self._num_unrolls[i])
    self._restart()
    if scores and len(scores) == len(self._suites):
      row[metrics.HEADLINE] = statistics.fmean(
          min(1., score) for score in scores)
    return row
