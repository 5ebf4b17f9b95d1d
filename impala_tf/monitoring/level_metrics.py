"""What a run of several levels logs of each, and of its suite as a whole."""

import collections
import statistics
from typing import Any, Sequence

import numpy as np

from impala_tf.monitoring import metrics
from impala_tf.suites import levels as levels_lib

EPISODE_WINDOW = 20  # Of a level; a row of 57 waits long enough for them.
HEADLINE = 'capped_mean_human_normalised_score'


class LevelLog:
  """Tells frames, returns and policy lag apart by level."""

  def __init__(self, levels: Sequence[str], frames: Any,
               frames_per_unroll: int):
    """Begins with no episodes.

    Args:
      levels: all L, in the order that `types.Unroll.level_index` counts in.
      frames: int64 variable [L], environment frames learned from so far; is
        kept up to date.
      frames_per_unroll: environment frames.
    """
    self._levels = levels
    self._frames = frames
    self._frames_per_unroll = frames_per_unroll
    self._returns = [collections.deque(maxlen=EPISODE_WINDOW) for _ in levels]
    # The levels whose returns say how good a human would find them.
    self._suites = {level: suite for level in levels
                    if (suite := levels_lib.suite_of(level))}
    self._restart()

  def _restart(self):
    self._num_unrolls = np.zeros(len(self._levels), np.int64)
    self._lag_sums = np.zeros(len(self._levels))

  def add(self, is_first: np.ndarray, episode_return: np.ndarray,
          lags: np.ndarray, level_index: np.ndarray) -> None:
    """Takes the new unrolls of an update.

    Args:
      is_first: bool [T, B], of x_1 to x_T, as for `metrics.EpisodeWindow`.
      episode_return: float32 [T, B].
      lags: int64 [B], updates.
      level_index: int32 [B].
    """
    num_levels = len(self._levels)
    num_unrolls = np.bincount(level_index, minlength=num_levels)
    self._frames.assign_add(num_unrolls * self._frames_per_unroll)
    self._num_unrolls += num_unrolls
    self._lag_sums += np.bincount(level_index, lags, num_levels)
    for t, b in zip(*np.nonzero(is_first)):
      self._returns[level_index[b]].append(float(episode_return[t, b]))

  def finish(self) -> metrics.Row:
    """Returns what a row says of the levels, and starts lags anew.

    By level, under 'level/<name>/': `frames` learned from; `episode_return`,
    the mean of its last 20 episodes, once there is one; `policy_lag`, the mean
    since the last row, where unrolls came.

    Besides the headline, of the run's levels that are of a suite: their mean
    human-normalised score, where none counts more than 1.0 (appendix B), once
    each of them has a return. It is of training, with sampled actions; what the
    paper's tables compare, `launch/evaluate.sh --suite` plays.
    """
    row = {}
    for i, (level, frames) in enumerate(zip(self._levels,
                                            self._frames.numpy())):
      row[f'level/{level}/frames'] = int(frames)
      if self._returns[i]:
        row[f'level/{level}/episode_return'] = self._mean_return(i)
      if self._num_unrolls[i]:
        row[f'level/{level}/policy_lag'] = float(
            self._lag_sums[i] / self._num_unrolls[i])
    self._restart()
    scored = [i for i, level in enumerate(self._levels)
              if level in self._suites]
    if scored and all(self._returns[i] for i in scored):
      row[HEADLINE] = statistics.fmean(
          min(1., self._normalised(i)) for i in scored)
    return row

  def _mean_return(self, i: int) -> float:
    return statistics.fmean(self._returns[i])

  def _normalised(self, i: int) -> float:
    level = self._levels[i]
    return self._suites[level].human_normalised_score(
        level, self._mean_return(i))
