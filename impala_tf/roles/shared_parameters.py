"""A3C's architecture: workers that share parameters, which a learner stores.

Section 4 of Mnih et al. 2016 (arXiv:1602.01783v2). Actors are processes whose
workers play, learn, and change the parameters in memory of the learner's
process (`parameter_server`), which logs and saves them. Workers on another
machine send their gradients to the learner (`links`). All are found,
started and supervised as in IMPALA's architecture (`learner_with_actors`).
"""

import functools
import sys
import time
from typing import Callable

import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.a3c import links
from impala_tf.a3c import parameter_server
from impala_tf.a3c import store as store_lib
from impala_tf.core import experiment
from impala_tf.core import loop
from impala_tf.core import transport
from impala_tf.core import weights
from impala_tf.roles import a3c_workers
from impala_tf.roles import beginning
from impala_tf.roles import learner_state
from impala_tf.runs import skipped_updates
from impala_tf.runs import training_log
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing

_POLL_SECS = 0.05
_PUBLISH_SECS = 1.  # Time between parameters for evaluators.

run_actor = a3c_workers.run_actor


class Publisher(weights.Publisher):
  """A callback that publishes the shared parameters about once a second."""
  _next_time = float('-inf')

  def after_update(self, update: interfaces.Update) -> None:
    if time.monotonic() >= self._next_time:
      self.publish(update.updates)
      self._next_time = time.monotonic() + _PUBLISH_SECS


class Learner:
  """A3C's learner, which logs and saves the workers' updates in `store`."""

  def __init__(self, config: config_lib.Config, run_dir: str):
    """Makes the parts and restores the newest checkpoint in `run_dir`.

    Raises ConfigError if the config cannot be trained, UserError if all
    checkpoints are damaged.
    """
    environment = experiment.make_probe_environment(config)
    beginning.show_remarks(config, environment)
    self._config = config
    self._run_dir = run_dir
    self._state = learner_state.make(config, environment)
    self._checkpointer = learner_state.restore(
        config, run_dir, run_dir, environment, self._state)
    self.server: parameter_server.ParameterServer = self._state.learner
    self.store = self.server.make_store()

  def save(self, number: int, score: float | None) -> None:
    """Writes a checkpoint of the shared parameters; OSError if that fails."""
    del number  # There are more updates now.
    self.server.take_all(self.store)
    self._checkpointer.save(int(self.server.num_updates.numpy()), score)

  def learn(self, control: control_lib.LoopControl, reports: interfaces.Reports,
            publisher: Publisher | None = None, poll_secs: float = 0.,
            on_poll: Callable[[], None] = lambda: None) -> bool:
    """Logs the workers' updates and writes checkpoints; makes no profile.

    `publisher` is None if nobody reads parameters. In one process each batch
    has a row. For `poll_secs` and `on_poll` see `SegmentReader`. Returns
    whether the run is done; raises as `learning.learn` does.
    """
    server, options = self.server, self._config.experiment
    skipped = skipped_updates.SkippedUpdates(
        self._run_dir, self._config.optimizer.max_skipped_updates)
    log = training_log.TrainingLog(
        training_log.LogSettings(
            self._run_dir, sys.maxsize,  # All unrolls are fresh.
            0. if options.in_process else options.log_interval_secs,
            num_envs=sizing.num_workers(self._config, sizing.fitted(
                sizing.fit(self._config).actor.num_actors))),
        server, self._state.totals, lambda: {
            'updates_skipped': skipped.total,
            'target_syncs': self.store.counts.num_syncs},
        on_row=reports.on_row)
    checkpoints = training_log.Checkpoints(
        options.checkpoint_interval_secs, self.save, server, log)
    with checkpoints:
      # It is done by what was read: workers may have reached the end meanwhile.
      return loop.train(
          loop.read(parameter_server.SegmentReader(
              server, self.store, poll_secs, on_poll), control), server,
          [*([] if publisher is None else [publisher]),
           parameter_server.SegmentMetrics(skipped), log,
           skipped_updates.Limit(skipped), checkpoints, *reports.callbacks],
          functools.partial(log.is_done, options))


def run_learner(config: config_lib.Config, endpoint: control_lib.Endpoint,
                control: control_lib.LoopControl, reports: interfaces.Reports,
                join: Callable[[], learner_group.Learners] =
                learner_group.alone) -> bool:
  """Runs the learner's process; see `learner_with_actors.run_learner`."""
  del join  # It is the only one.
  sizing.set_threads(1)
  learner = Learner(config, endpoint.run_dir)
  table_name = learner.store.table_name
  reverb_server, memory = transport.serve(
      config, config, learner.server.agent.published_variables,
      # The first stays empty: workers need no more than its name.
      [reverb.Table.queue(table_name, max_size=1),
       links.make_table(learner.store.parameters.size)],
      endpoint.port, replay_dir=None)
  address = f'localhost:{reverb_server.port}'
  publisher = Publisher(
      learner.store.parameters.copy,
      lambda version: learner.store.counts.num_frames,
      weights.in_other_processes(
          weights.Table(address), memory, write_all=True))
  publisher.publish(learner.store.counts.num_updates)
  store = store_lib.find([table_name])
  assert store is not None  # It is this process's own.
  check = links.start_intake(
      address, store, links.make_apply(config, store), publisher,
      config.experiment.total_frames)
  return learner.learn(control, reports, publisher, _POLL_SECS, check)


def run_in_process(config: config_lib.Config, run_dir: str,
                   control: control_lib.LoopControl,
                   reports: interfaces.Reports,
                   updates_a_row: int = 100) -> bool:
  """Runs all workers in turn in this process; equal seeds give equal numbers.

  `run_dir` exists; its checkpoints are resumed from. Rows are `updates_a_row`
  updates apart: means over a stretch of time would differ between runs. Returns
  whether the run is done.
  """
  tf.config.experimental.enable_op_determinism()
  learner = Learner(config, run_dir)
  store = learner.store
  # On resume, use a new seed.
  workers = a3c_workers.make_workers(
      config, functools.partial(links.MemoryLink, config, store), task=0,
      num_processes=1, seed=store.counts.num_updates)

  def play():
    for _ in range(updates_a_row):
      if (control.should_stop() or
          store.counts.num_frames >= config.experiment.total_frames):
        return
      workers.run_segment()

  try:
    return learner.learn(control, reports, on_poll=play)
  finally:
    workers.close()
