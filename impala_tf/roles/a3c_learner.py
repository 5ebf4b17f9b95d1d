"""The learner's process of A3C: it logs and saves what workers learn."""

import functools
import sys
import time
from typing import Callable, Optional

from impala_tf import config as config_lib
from impala_tf.a3c import parameter_server
from impala_tf.a3c import store as store_lib
from impala_tf.core import experiment
from impala_tf.core import loop
from impala_tf.core import weights
from impala_tf.roles import beginning
from impala_tf.roles import learner_state
from impala_tf.runs import skipped_updates
from impala_tf.runs import training_log
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces

_PUBLISH_SECS = 1.  # Time between parameters for evaluators.


class Publisher(weights.Publisher):
  """A publisher of shared parameters, as a callback about once a second."""

  def __init__(self, store: store_lib.Store, address: str):
    """Publishes the present parameters on the server at 'host:port'."""
    super().__init__(
        store.parameters.copy, lambda version: store.counts.num_frames,
        [weights.NewestSender(weights.Table(address).write).write])
    self.publish(store.counts.num_updates)
    self._next_time = time.monotonic() + _PUBLISH_SECS

  def after_update(self, update: interfaces.Update) -> None:
    """Publishes the parameters if it is time."""
    if time.monotonic() >= self._next_time:
      self.publish(update.updates)
      self._next_time = time.monotonic() + _PUBLISH_SECS


class Learner:
  """The learner's process, which logs and saves.

  Attributes:
    server: the shared parameters as variables.
    store: the workers' memory.
  """

  def __init__(self, config: config_lib.Config, run_dir: str):
    """Makes the parts and restores the newest checkpoint.

    `run_dir` must exist. Raises ConfigError if the config cannot be trained,
    CheckpointError if all checkpoints are damaged.
    """
    environment = experiment.make_probe_environment(config)
    beginning.show_remarks(environment.remarks)
    self._config = config
    self._run_dir = run_dir
    self._state = learner_state.make(config, environment)
    self._checkpointer = learner_state.restore(
        config, run_dir, run_dir, environment, self._state)
    self.server: parameter_server.ParameterServer = self._state.learner
    self.store = self.server.make_store()

  def save(self, number: int, score: Optional[float]) -> None:
    """Writes a checkpoint of the shared parameters; raises OSError."""
    del number  # There are more updates now.
    self.server.take_all(self.store)
    self._checkpointer.save(int(self.server.num_updates.numpy()), score)

  def learn(self, control: control_lib.LoopControl, reports: interfaces.Reports,
            publisher: Optional[Publisher] = None, poll_secs: float = 0.,
            on_poll: Callable[[], None] = lambda: None) -> bool:
    """Collects what workers learn; makes no profile.

    `publisher` is None if nobody reads parameters. In one process each batch
    has a row. For `poll_secs` and `on_poll` see `SegmentReader`. Returns
    whether the run is done; raises as `learning.learn` does.
    """
    server, options = self.server, self._config.experiment
    skipped = skipped_updates.SkippedUpdates(
        self._run_dir, self._config.optimizer.max_skipped_updates)
    log = training_log.TrainingLog(
        training_log.LogSettings(
            self._run_dir, sys.maxsize,
            0. if options.in_process else options.log_interval_secs),
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
