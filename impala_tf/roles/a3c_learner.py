"""The learner's process of A3C: it logs and saves what workers learn."""

import functools
import sys
import time
from typing import Callable, Iterator, NamedTuple, Optional

from impala_tf import config as config_lib
from impala_tf.a3c import parameter_server
from impala_tf.a3c import store as store_lib
from impala_tf.comms import newest_sender
from impala_tf.core import experiment
from impala_tf.core import loop
from impala_tf.core import weights
from impala_tf.roles import beginning
from impala_tf.roles import learner_state
from impala_tf.runs import skipped_updates
from impala_tf.runs import training_log
from impala_tf.runtime import interfaces
from impala_tf.storage import checkpoint as checkpoint_lib

_PUBLISH_SECS = 1.  # Time between parameters for evaluators.


class Parts(NamedTuple):
  """The parts of the learner's process."""
  config: config_lib.Config
  run_dir: str
  state: learner_state.State  # All that checkpoints hold.
  checkpointer: checkpoint_lib.Checkpointer
  store: store_lib.Store  # The workers' memory.

  @property
  def server(self) -> parameter_server.ParameterServer:
    """The shared parameters as variables."""
    return self.state.learner

  def reader(self, poll_secs: float = 0.,
             check: Callable[[], None] = lambda: None
             ) -> parameter_server.SegmentReader:
    """Makes the reader of the workers' records."""
    return parameter_server.SegmentReader(
        self.server, self.store, poll_secs, check)

  def save(self, number: int, score: Optional[float]) -> None:
    """Writes a checkpoint of the shared parameters; raises OSError."""
    del number  # There are more updates now.
    self.server.take_all(self.store)
    self.checkpointer.save(int(self.server.num_updates.numpy()), score)

  def learn(self, batches: Iterator[parameter_server.Segments],
            reports: interfaces.Reports,
            publisher: Optional[interfaces.Callback] = None,
            log_interval_secs: float = 0.) -> bool:
    """Collects what workers learn until batches end; makes no profile.

    `publisher` is None if nobody reads parameters. With 0 seconds between rows
    each batch has one. Returns whether the run is done; raises as
    `learning.learn` does.
    """
    server, experiment_config = self.server, self.config.experiment
    skipped = skipped_updates.SkippedUpdates(
        self.run_dir, self.config.optimizer.max_skipped_updates)
    log = training_log.TrainingLog(
        training_log.LogSettings(self.run_dir, sys.maxsize, log_interval_secs),
        server, self.state.totals, lambda: {
            'updates_skipped': skipped.total,
            'target_syncs': self.store.counts.num_syncs},
        on_row=reports.on_row)
    checkpoints = training_log.Checkpoints(
        experiment_config.checkpoint_interval_secs, self.save, server, log)

    with checkpoints:
      # It is done by what was read: workers may have reached the end meanwhile.
      return loop.train(
          batches, server,
          [*([] if publisher is None else [publisher]),
           parameter_server.SegmentMetrics(skipped), log,
           skipped_updates.Limit(skipped), checkpoints, *reports.callbacks],
          functools.partial(log.is_done, experiment_config))


def make(config: config_lib.Config, run_dir: str) -> Parts:
  """Makes the parts and restores the newest checkpoint.

  `run_dir` must exist. Raises ConfigError if the config cannot be trained so,
  CheckpointError if all checkpoints are damaged.
  """
  environment = experiment.make_probe_environment(config)
  beginning.show_remarks(environment.remarks)
  state = learner_state.make_of_workers(config, environment)
  checkpointer = learner_state.restore(
      config, run_dir, run_dir, environment, state)
  return Parts(
      config, run_dir, state, checkpointer, state.learner.make_store())


def make_publisher(store: store_lib.Store, address: str) -> weights.Publisher:
  """Makes the publisher of shared parameters to evaluators and workers."""
  return weights.Publisher(
      store.parameters.copy, lambda version: store.counts.num_frames,
      [newest_sender.NewestSender(weights.Table(address).write).write])


class SeldomPublisher:
  """A callback that publishes parameters about once a second."""

  def __init__(self, publisher: weights.Publisher, version: int):
    """Publishes the present parameters, which `version` updates have made."""
    self._publisher = publisher
    publisher.publish(version)
    self._next_time = time.monotonic() + _PUBLISH_SECS

  def after_update(self, update: interfaces.Update) -> None:
    if time.monotonic() >= self._next_time:
      self._publisher.publish(update.updates)
      self._next_time = time.monotonic() + _PUBLISH_SECS
