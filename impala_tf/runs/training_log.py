"""The learner's callbacks that write rows of metrics and checkpoints."""

import collections
import contextlib
import dataclasses
import statistics
import time
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from absl import logging
import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.runs import metrics as metrics_lib
from impala_tf.runtime import interfaces
from impala_tf.runtime import waiting
from impala_tf.suites import levels as levels_lib

# Prefixes of metrics whose NaN means "no such unroll in this batch".
_KINDS = ('own/', 'foreign/')

GatherFn = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
# Writes a checkpoint under the number of updates; raises OSError. By the score,
# `Update.episode_return`, the best one is kept.
SaveFn = Callable[[int, float | None], Any]


class Totals(tf.Module):
  """Totals of a run that checkpoints store beside the learner's own counts.

  Attributes:
    secs: float64 variable, wall time of training without interruptions.
    best_return: float64 variable, the best mean of 100 full episodes.
    level_frames: int64 variable [L], frames learned from by level; None if
      there is one level only.
  """

  def __init__(self, num_levels: int = 1):
    super().__init__(name='totals')
    self.secs = tf.Variable(0., trainable=False, dtype=tf.float64)
    self.best_return = tf.Variable(float('-inf'), trainable=False,
                                   dtype=tf.float64)
    self.level_frames = None
    if num_levels > 1:
      self.level_frames = tf.Variable(np.zeros(num_levels, np.int64),
                                      trainable=False)


class LogSettings(NamedTuple):
  """Settings of the log: directory, times and columns of rows."""
  run_dir: str  # Directory of `metrics.jsonl`, a path or URL.
  num_fresh: int  # New unrolls of a batch, its first ones.
  interval_secs: float  # Seconds between rows, at least.
  # Rows are due at multiples of this number of updates only.
  interval_updates: int = 1
  # Names of the M numbers that levels report of episodes.
  episode_metrics: Sequence[str] = ()
  num_envs: int = 0  # Of all actors.


class EpisodeWindow:
  """A window of the last full episodes: their returns and other columns.

  Episodes with a non-finite return are counted, but not averaged.
  """

  def __init__(self, size: int, num_envs: int = 0, is_resumed: bool = False):
    """Starts an empty window of at most `size` episodes.

    Short games end first after all `num_envs` environments start. If the run
    `is_resumed`, the first `num_envs` episodes are left out for this reason.
    """
    self._values: dict[str, collections.deque[float]] = collections.defaultdict(
        lambda: collections.deque(maxlen=size))
    self._size = size
    self._num_envs = 0 if is_resumed else num_envs
    self.num_episodes = -num_envs if is_resumed else 0  # Left out below 0.

  def add(self, is_first: np.ndarray, episode_return: np.ndarray,
          columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Adds the episodes that ended within a batch of unrolls, arrays [T, B].

    `is_first` says whether x_1 to x_T begin an episode: x_0 was the last of an
    earlier unroll and counted there. Returns are raw; columns are by name.
    Returns `is_first` of the episodes that the window now has.
    """
    is_known = is_first & np.isfinite(episode_return) & (self.num_episodes >= 0)
    for name, values in {'episode_return': episode_return, **columns}.items():
      self._values[name].extend(
          values[is_known & (values != metrics_lib.MISSING)].tolist())
    total = self.num_episodes + int(np.sum(is_first))
    self.num_episodes = total if self.num_episodes >= 0 else min(total, 0)
    return is_known

  @property
  def mean_return(self) -> float | None:
    """Mean of a full window's returns; None before `size + num_envs` games."""
    returns = self._values['episode_return']
    is_due = (len(returns) == self._size
              and self.num_episodes >= self._size + self._num_envs)
    return float(np.mean(returns)) if is_due else None

  def means(self) -> metrics_lib.Row:
    return {name: float(np.mean(values))
            for name, values in self._values.items() if values}


class LevelLog:
  """A log of frames, returns and policy lag by level."""

  def __init__(self, levels: Sequence[str], frames: tf.Variable,
               frames_per_unroll: int):
    """Starts an empty log of L levels in the order of their indices.

    `add` updates `frames`, int64 variable [L], environment frames learned from.
    """
    self._levels = levels
    self._frames = frames
    self._frames_per_unroll = frames_per_unroll
    self._episodes = [EpisodeWindow(metrics_lib.LEVEL_EPISODE_WINDOW)
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
    """Adds an update's new unrolls, their episodes and policy lags, by level.

    Arrays [T, B] are as in `EpisodeWindow.add`; lags, int64 [B],
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

  def finish(self) -> metrics_lib.Row:
    """Returns columns 'level/<name>/…' for a row; clears means of policy lags.

    `metrics_lib.HEADLINE` is added once each level of a suite has a return: the
    mean of human-normalised scores, each capped at 1.0 (appendix B). They are
    training scores with sampled actions.
    """
    row: metrics_lib.Row = {}
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
      row[metrics_lib.HEADLINE] = statistics.fmean(
          min(1., score) for score in scores)
    return row


class Interval:
  """Means of metrics since the last row."""

  def __init__(self, frames: int):
    """Starts an interval; `frames` counts frames learned from so far."""
    self.start = time.monotonic()
    self.lags: list[np.ndarray] = []  # Of new unrolls, by update.
    self._start_frames = frames
    self._wait_secs = 0.
    self._values: dict[str, list[float]] = collections.defaultdict(list)

  def add(self, metrics: Mapping[str, float], lags: np.ndarray,
          wait_secs: float) -> None:
    self._wait_secs += wait_secs
    for name, value in metrics.items():
      self._values[name].append(value)
    self.lags.append(lags)

  def means(self, frames: int, secs: float) -> metrics_lib.Row:
    """Returns means over an interval of `secs` with at least one update."""
    lags = np.concatenate(self.lags)
    row = {
        'frames_per_sec': (frames - self._start_frames) / secs,
        'learner_wait_share': self._wait_secs / secs,
        'policy_lag': float(np.mean(lags)),
        'policy_lag_max': int(np.max(lags)),
    }
    for name, values in self._values.items():
      numbers = np.asarray(values, np.float64)
      if name.startswith(_KINDS):
        numbers = numbers[~np.isnan(numbers)]
      if numbers.size:
        row[name] = float(np.mean(numbers))
    return row


@dataclasses.dataclass
class TrainingLog:
  """A callback that turns updates into rows of `metrics.jsonl`.

  Attributes:
    gauges: returns further columns when a row is written.
    gather: joins arrays of this learner's unrolls, whose last axis is the
      batch, with those of all other learners.
    on_row: gets each row after it was written.
    failed_saves: checkpoints that could not be written; a column of the rows.
  """
  settings: LogSettings
  learner: interfaces.Learner
  totals: Totals
  gauges: Callable[[], Mapping[str, float]]
  level_log: LevelLog | None = None
  gather: GatherFn = list
  on_row: Callable[[metrics_lib.Row], None] = lambda row: None

  def __post_init__(self):
    """Opens `metrics.jsonl` and TensorBoard's file for writing."""
    self.failed_saves = 0
    self._writer = metrics_lib.MetricsWriter(self.settings.run_dir)
    frames = int(self.learner.num_frames.numpy())
    self._episodes = EpisodeWindow(
        metrics_lib.EPISODE_WINDOW, self.settings.num_envs, frames > 0)
    self._num_lost = 0
    self._interval = Interval(frames)
    self._counted_until = self._interval.start

  def after_update(self, update: interfaces.Update) -> None:
    """Adds an update, and sets its `episode_return`; writes a row if due."""
    # x_0 was the last step of an earlier unroll and was counted there, and so
    # was all that is replayed. NumPy slices, because those of tensors would
    # cost more than all else here.
    env_outputs, num_fresh = update.batch.env_outputs, self.settings.num_fresh
    names = [f'episode/{name}' for name in self.settings.episode_metrics]
    metrics = [env_outputs.episode_metrics.numpy()[1:, :num_fresh, m]
               for m in range(len(names))]
    (step_type, episode_return, episode_steps, level_index, lags,
     *metrics) = self.gather([
        *(tensor.numpy()[1:, :num_fresh] for tensor in (
            env_outputs.step_type, env_outputs.episode_return,
            env_outputs.episode_steps)),
        update.batch.level_index.numpy()[:num_fresh], update.lags[:num_fresh],
        *metrics])
    is_first = step_type == int(dm_env.StepType.FIRST)
    is_lost = is_first & (episode_steps == 0)
    self._num_lost += int(np.sum(is_lost))
    is_first &= ~is_lost
    columns = dict(zip(names, metrics))
    is_first = self._episodes.add(is_first, episode_return, {
        'episode_steps': episode_steps, **columns})
    self._interval.add(update.metrics, lags, update.wait_secs)
    if self.level_log:
      self.level_log.add(is_first, episode_return, lags, level_index, columns)
    update.episode_return = self._episodes.mean_return
    secs = time.monotonic() - self._interval.start
    if secs >= self.settings.interval_secs and (
        update.updates % self.settings.interval_updates == 0):
      self._write_row()

  def is_done(self, config: config_lib.ExperimentConfig) -> bool:
    """Returns whether `total_frames` or `stop_at_return` has been reached.

    `ExperimentConfig.stop_at_return` may have been reached at any time.
    """
    if self.learner.num_frames.numpy() >= config.total_frames:
      return True
    return config.stop_at_return is not None and (
        self._best_return() >= config.stop_at_return)

  def _best_return(self) -> float:
    """Updates and returns the run's best mean of 100 returns; -inf before."""
    best, newest = self.totals.best_return, self._episodes.mean_return
    if newest is not None and newest > best:
      best.assign(newest)
    return float(best)

  def count_secs(self) -> None:
    """Adds the time since the last call to that of the run."""
    now = time.monotonic()
    self.totals.secs.assign_add(now - self._counted_until)
    self._counted_until = now

  def _write_row(self) -> None:
    secs = time.monotonic() - self._interval.start
    self.count_secs()
    frames = int(self.learner.num_frames.numpy())
    interval, self._interval = self._interval, Interval(frames)
    best = self._best_return()
    row = {
        'frames': frames,
        'updates': int(self.learner.num_updates.numpy()),
        'secs': float(self.totals.secs),
        **interval.means(frames, secs),
        **self.learner.hyperparameters.row(),
        **self.gauges(),
        'checkpoints_failed': self.failed_saves,
        'episodes': max(0, self._episodes.num_episodes),
        'episodes_lost': self._num_lost,
        **self._episodes.means(),
    }
    if np.isfinite(best):
      row['best_episode_return'] = best
    if self.level_log:
      row.update(self.level_log.finish())
    self._writer.write(row)
    self.on_row(row)

  def close(self) -> None:
    """Writes the last row, if there is any, and closes the files."""
    try:
      if self._interval.lags:
        self._write_row()
    finally:
      self._writer.close()


@dataclasses.dataclass
class Checkpoints(contextlib.AbstractContextManager):
  """A callback that writes checkpoints during the run and at its end.

  `log` counts failures, and is closed at the end.
  """
  interval_secs: float
  save: SaveFn
  learner: interfaces.Learner
  log: TrainingLog

  def __post_init__(self):
    self._score: float | None = None
    self._first = int(self.learner.num_updates.numpy())
    self._last_time = time.monotonic()

  def after_update(self, update: interfaces.Update) -> None:
    """Writes a checkpoint if one is due; logs a warning if that fails."""
    self._score = update.episode_return
    if time.monotonic() - self._last_time <= self.interval_secs:
      return
    self._last_time = time.monotonic()
    self.log.count_secs()
    try:
      self.save(int(self.learner.num_updates.numpy()), self._score)
    except OSError as error:
      self.log.failed_saves += 1
      logging.warning('No checkpoint, training goes on: %s', error)

  def __exit__(self, exc_type, *exc_info) -> None:
    """Closes the log and writes the last checkpoint, also after most errors.

    After `PeerLost` there is none: within an update parameters may be ahead of
    counts. Nor is there one after an error before the first update, so that
    a run that cannot work leaves nothing behind. Raises OSError if it could not
    be written.
    """
    # The last row first: its totals belong into the last checkpoint, which is
    # written even if the row fails.
    try:
      self.log.close()
    finally:
      number = int(self.learner.num_updates.numpy())
      if exc_type is None or (number > self._first and
                              not issubclass(exc_type, waiting.PeerLost)):
        self.save(number, self._score)
