"""Learning with a learner's parts: the log, the callbacks, and the loop."""

import contextlib
import functools
from typing import Generator, Iterator, Mapping

import reverb

from impala_tf import types
from impala_tf.comms import reverb_calls
from impala_tf.core import loop
from impala_tf.core import queue as queue_lib
from impala_tf.replay import priorities
from impala_tf.replay import sources
from impala_tf.roles import batched_a2c
from impala_tf.roles import beginning
from impala_tf.roles import learner_parts
from impala_tf.runs import profiling
from impala_tf.runs import skipped_updates
from impala_tf.runs import training_log
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces
from impala_tf.runtime import sizing
from impala_tf.suites import levels as levels_lib


def _gauges(client: reverb.Client, parts: learner_parts.LearnerParts,
            skipped: skipped_updates.SkippedUpdates) -> Mapping[str, float]:
  """Reads the gauges of a row; raises ConnectionError if Reverb is gone."""
  # The server's own answer: it may have replaced the tables it was made of.
  infos = reverb_calls.server_info(client)
  if parts.link is not None:  # It may be away just now.
    infos = {**infos, queue_lib.REPLAY: parts.link.infos[queue_lib.REPLAY]}
  return {'unrolls_refused': parts.refusals.total,
          'updates_skipped': skipped.total,
          **{f'{name}_occupancy': info.current_size / info.max_size
             for name, info in infos.items()
             if name in (queue_lib.QUEUE, queue_lib.REPLAY)}}


def batches(parts: learner_parts.LearnerParts, control: control_lib.LoopControl
            ) -> Generator[types.Unroll, None, None]:
  """Yields batches until `control`, or another learner, asks to stop."""
  if parts.reader is None:
    return batched_a2c.play_batches(
        parts.config, parts.state.learner, parts.spec, control, parts.prepare)
  return loop.read(parts.reader, control, parts.learners.agree)


def learn(parts: learner_parts.LearnerParts,
          batches: Generator[types.Unroll, None, None],
          reports: interfaces.Reports) -> bool:
  """Learns from batches until they end; returns whether the run is done.

  It is done once all frames are learned from, the return is high enough, or a
  callback has ended it.

  Raises OSError if the last checkpoint could not be written; PeerLost if
  another learner is lost, then without one; UserError as `SkippedUpdates` does.
  """
  config, learner = parts.config, parts.state.learner
  options = config.experiment
  beginning.show_remarks(config, parts.environment)
  # Joins arrays of all learners. A single one does without the call.
  gather = parts.learners.concatenate if parts.learners.number > 1 else list
  skipped = skipped_updates.SkippedUpdates(
      parts.log_dir, config.optimizer.max_skipped_updates)
  level_log = None
  level_frames = parts.state.totals.level_frames
  if level_frames is not None:
    level_log = training_log.LevelLog(
        levels_lib.expand(config.environment.level), level_frames,
        config.learner.unroll_length * parts.environment.frames_per_step)
  log = training_log.TrainingLog(
      training_log.LogSettings(
          parts.log_dir, config.num_fresh,
          # Means over a stretch of time would differ between runs.
          0. if options.in_process else options.log_interval_secs,
          options.log_interval_updates,
          config.environment.episode_metric_names, sizing.fitted(
              config.actor.num_actors) * sizing.fitted(config.actor.num_envs)),
      learner, parts.state.totals, functools.partial(
          _gauges, reverb.Client(parts.address), parts, skipped),
      level_log, gather, reports.on_row)
  checkpoints = training_log.Checkpoints(
      options.checkpoint_interval_secs, parts.save, learner, log)
  done = False
  try:
    with contextlib.closing(batches), checkpoints:
      done = loop.train(
          batches, learner,
          list(_callbacks(parts, skipped, log, checkpoints, gather, reports)),
          functools.partial(log.is_done, options), parts.learners.updating)
    return done
  finally:
    if config.num_replayed and parts.link is None:
      # Reverb's reader keeps tables alive in this process.
      reverb.Client(parts.address).reset(queue_lib.REPLAY)
    if parts.link is not None:
      # Nobody waits for an agent that is done before its last frame.
      share = learner.num_frames.numpy() / options.total_frames
      parts.link.report(1. if done else min(1., share))
      parts.link.close()


def _callbacks(parts: learner_parts.LearnerParts,
               skipped: skipped_updates.SkippedUpdates,
               log: training_log.TrainingLog,
               checkpoints: training_log.Checkpoints,
               gather: training_log.GatherFn,
               reports: interfaces.Reports) -> Iterator[interfaces.Callback]:
  if parts.config.has_priorities:  # Takes the losses of single unrolls away.
    yield priorities.Prioritiser(parts.address, queue_lib.REPLAY)
  if parts.member is not None:
    yield parts.member  # May change parameters.
  yield parts.publisher
  yield skipped  # Empties the metrics of an update that changed nothing.
  if parts.config.num_replayed:
    yield sources.ReplayColumns(parts.config.num_replayed, gather)
  yield log
  yield skipped_updates.Limit(skipped)
  yield checkpoints
  if reports.profile:
    yield profiling.LearnerProfiler(parts.log_dir)
  yield from reports.callbacks
