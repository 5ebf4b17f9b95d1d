"""The learner's loop: read, update, publish, log, save."""

import contextlib
import time
import typing
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence

from absl import logging
import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.runs import level_metrics
from impala_tf.runs import metrics as metrics_lib
from impala_tf.runs import skipped_updates
from impala_tf.runtime import host as host_lib
from impala_tf.runtime import interfaces
from impala_tf.runtime import waiting

GatherFn = Callable[[Sequence[np.ndarray]], List[np.ndarray]]


class Publisher(typing.Protocol):
  """A destination of new parameters; see `weights`."""

  def publish(self, version: int) -> None:
    """Publishes the present parameters under the number of updates so far."""


class Saver(typing.Protocol):
  """A writer of checkpoints; see `checkpoint.Checkpointer`."""

  def save(self, number: int, score: Optional[float]) -> Any:
    """Writes a checkpoint under the number of updates; raises OSError.

    `score` is `TrainingLog.episode_return`, by which the best one is kept.
    """


class StopTraining(Exception):
  """An end of the run that a callback asks for: as if all frames were there."""


class Update(NamedTuple):
  """An update that was just made, for callbacks.

  Attributes:
    updates: updates of the run so far.
    frames: environment frames learned from so far.
    metrics: metrics of this update by name, such as 'loss/total'; empty where
      it was skipped.
    episode_return: mean return of the last 100 full episodes; None before so
      many have ended.
  """
  updates: int
  frames: int
  metrics: Mapping[str, float]
  episode_return: Optional[float]


class Callback(typing.Protocol):
  """A user's object that is called after each update."""

  def after_update(self, update: Update) -> None:
    """Is called after each update; may raise StopTraining."""


class Totals(tf.Module):
  """Totals of a run beside the learner's own counts; in checkpoints.

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


class TrainingLog:
  """A log that turns updates into rows of `metrics.jsonl`.

  Attributes:
    failed_saves: checkpoints that could not be written; a column of the rows.
    has_updates: whether this process has made any update.
  """

  def __init__(self, run_dir: str, interval_secs: float, interval_updates: int,
               learner: interfaces.Learner, totals: Totals,
               reader: interfaces.Reader, num_fresh: int,
               gauges: Callable[[], Mapping[str, float]],
               level_log: Optional[level_metrics.LevelLog] = None,
               gather: GatherFn = list):
    """Opens the files.

    Args:
      interval_secs: seconds between rows.
      interval_updates: rows are due at multiples of this number of updates
        only.
      totals: totals of the run, which the log keeps up to date.
      reader: reader whose waiting is logged.
      num_fresh: number of new unrolls of a batch, its first ones.
      gauges: returns further columns when a row is written.
      level_log: adds columns for each level, if there are several.
      gather: function that joins arrays of this learner's unrolls, whose last
        axis is the batch, with those of all other learners.
    """
    self._interval_updates = interval_updates
    self.failed_saves = 0
    self.has_updates = False
    self._learner = learner
    self._totals = totals
    self._reader = reader
    self._num_fresh = num_fresh
    self._gauges = gauges
    self._level_log = level_log
    self._gather = gather
    self._writer = metrics_lib.MetricsWriter(run_dir)
    self._episodes = metrics_lib.EpisodeWindow()
    self._interval = metrics_lib.Interval(
        interval_secs, int(learner.num_frames.numpy()), reader.wait_secs)
    self._last_time = time.monotonic()

  @property
  def is_due(self) -> bool:
    """Whether it is time for a row."""
    return self._interval.is_over and (
        self._learner.num_updates.numpy() % self._interval_updates == 0)

  def add(self, unroll: types.Unroll, metrics: Mapping[str, float],
          lags: np.ndarray) -> None:
    """Adds one update.

    Args:
      unroll: the update's batch, leading [T+1, B].
      metrics: the result of `Learner.update`; empty if the update was skipped.
      lags: int64 [B], policy lag of each unroll in updates.
    """
    self.has_updates = True
    # x_0 was the last step of an earlier unroll and was counted there, and so
    # was all that is replayed. NumPy slices, because those of tensors would
    # cost more than all else here.
    env_outputs, num_fresh = unroll.env_outputs, self._num_fresh
    steps = [
        tensor.numpy()[1:, :num_fresh]
        for tensor in (env_outputs.step_type, env_outputs.episode_return,
                       env_outputs.episode_steps)]
    is_shared = (
        bool(unroll.origin) and unroll.origin.is_of_several_agents)
    is_foreign = (unroll.origin.is_foreign.numpy() if is_shared
                  else np.zeros(lags.shape, bool))
    (step_type, episode_return, episode_steps, level_index, fresh, replayed,
     foreign) = self._gather([
         *steps, unroll.level_index.numpy()[:num_fresh], lags[:num_fresh],
         lags[num_fresh:], is_foreign[num_fresh:]])
    is_first = step_type == int(dm_env.StepType.FIRST)
    self._episodes.add(is_first, episode_return, episode_steps)
    if is_shared:
      metrics = {**metrics, 'replayed/foreign_share': np.mean(foreign)}
      # Other agents count updates of their own. So did this one before a kill
      # made it go on from an older checkpoint: those unrolls are of the future.
      replayed = replayed[~foreign & (replayed >= 0)]
    if replayed.size:
      metrics = {**metrics, 'replayed/policy_lag': np.mean(replayed)}
    self._interval.add(metrics, fresh)
    if self._level_log:
      self._level_log.add(is_first, episode_return, fresh, level_index)

  @property
  def episode_return(self) -> Optional[float]:
    """Mean return of the last 100 full episodes; None before so many ended."""
    if not self._episodes.is_full:
      return None
    return self._episodes.means()['episode_return']

  def has_reached(self, stop_at_return: Optional[float]) -> bool:
    """Whether `episode_return` is or ever was this high; False for None."""
    if stop_at_return is None:
      return False
    return self._best_return() >= stop_at_return

  def _best_return(self) -> float:
    """Updates and returns the run's best `episode_return`; -inf before any."""
    best, newest = self._totals.best_return, self.episode_return
    if newest is not None and newest > best:
      best.assign(newest)
    return float(best)

  def notify(self, callbacks: Sequence[Callback],
             metrics: Mapping[str, float]) -> None:
    """Calls callbacks after an update; may raise StopTraining."""
    if not callbacks:
      return
    update = Update(
        int(self._learner.num_updates.numpy()),
        int(self._learner.num_frames.numpy()), metrics, self.episode_return)
    for callback in callbacks:
      callback.after_update(update)

  def write_row(self) -> metrics_lib.Row:
    """Writes and returns a row of the updates since the last."""
    now = time.monotonic()
    self._totals.secs.assign_add(now - self._last_time)
    self._last_time = now
    frames = int(self._learner.num_frames.numpy())
    best = self._best_return()
    row = {
        'frames': frames,
        'updates': int(self._learner.num_updates.numpy()),
        'secs': float(self._totals.secs),
        **self._interval.finish(frames, self._reader.wait_secs),
        **self._learner.hyperparameters.row(),
        **self._gauges(),
        'checkpoints_failed': self.failed_saves,
        'episodes': self._episodes.num_episodes,
        **self._episodes.means(),
    }
    if np.isfinite(best):
      row['best_episode_return'] = best
    if self._level_log:
      row.update(self._level_log.finish())
    self._writer.write(row)
    return row

  def close(self) -> Optional[metrics_lib.Row]:
    """Closes the files; writes and returns the last row if there is any."""
    try:
      return None if self._interval.is_empty else self.write_row()
    finally:
      self._writer.close()


class Saves(contextlib.AbstractContextManager):
  """Saves of a run: some during it, and one at its end, for whatever reason."""

  def __init__(self, interval_secs: float,
               save: Callable[[Optional[float]], Any], log: TrainingLog,
               host: host_lib.LearnerHost):
    """Starts the clock.

    Args:
      interval_secs: seconds between saves during the run.
      save: writes a checkpoint, given `TrainingLog.episode_return`; raises
        OSError.
      log: closed at the end.
      host: gets the last row.
    """
    self._interval_secs = interval_secs
    self._save = save
    self._log = log
    self._host = host
    self._last_time = time.monotonic()

  def save_if_due(self) -> None:
    """Writes a checkpoint if it is time; logs a warning if that fails."""
    if time.monotonic() - self._last_time <= self._interval_secs:
      return
    self._last_time = time.monotonic()
    try:
      self._save(self._log.episode_return)
    except OSError as error:
      self._log.failed_saves += 1
      logging.warning('No checkpoint, training goes on: %s', error)

  def __exit__(self, exc_type, *exc_info) -> None:
    """Writes the last row and the last checkpoint; raises OSError.

    After `PeerLost` there is no last checkpoint: within an update counts may be
    ahead of parameters. Nor is there one after an error before the first
    update, so that a run that cannot work leaves nothing behind.
    """
    # The last row first: its totals belong into the last checkpoint, which is
    # written even where the row fails.
    try:
      last_row = self._log.close()
      if last_row is not None:
        self._host.on_row(last_row)
    finally:
      if exc_type is None or (self._log.has_updates and not issubclass(
          exc_type, waiting.PeerLost)):
        self._save(self._log.episode_return)


def train(config: config_lib.ExperimentConfig, learner: interfaces.Learner,
          reader: interfaces.Reader, publisher: Publisher, saver: Saver,
          log: TrainingLog, skipped: skipped_updates.SkippedUpdates,
          host: host_lib.LearnerHost,
          callbacks: Sequence[Callback] = ()) -> bool:
  """Learns until the run is done or the host says to stop.

  Args:
    config: when the run is done, and how often a checkpoint is due.
    publisher: publishes the parameters after each update.
    saver: writes checkpoints during the run, and one at its end. If one before
      the last cannot be written training goes on.
    log: takes each update; closed at the end.
    skipped: count of skipped updates.
    callbacks: called after each update.

  Returns:
    Whether the run is done: all frames are learned from, the return is high
    enough, or a callback has stopped it.

  Raises:
    OSError: the last checkpoint could not be written.
    PeerLost: another learner is lost; then there is no last checkpoint.
    UserError: see `skipped_updates.SkippedUpdates`.
  """
  def save(score):
    saver.save(int(learner.num_updates.numpy()), score)

  is_done = True
  with Saves(config.checkpoint_interval_secs, save, log, host) as saves, (
      contextlib.suppress(StopTraining)):
    num_updates = int(learner.num_updates.numpy())
    while (learner.num_frames.numpy() < config.total_frames
           and not log.has_reached(config.stop_at_return)):
      host.before_batch()
      unroll = reader.next(host)
      if unroll is None:
        is_done = False
        break
      lags = num_updates - unroll.policy_version.numpy()
      metrics = learner.update(unroll)
      num_updates += 1
      publisher.publish(num_updates)
      if skipped.add(metrics['gradient_norm']):
        metrics = {}  # They would spoil the means of the others.
      # Before the run may end of it: the last row counts its frames, too.
      log.add(unroll, metrics, lags)
      skipped.check(unroll)
      if log.is_due:
        host.on_row(log.write_row())
      saves.save_if_due()
      log.notify(callbacks, metrics)
  logging.info('%d frames in %d updates', learner.num_frames.numpy(),
               learner.num_updates.numpy())
  return is_done
