"""The learner of A3C's architecture, which keeps what its workers learn.

It learns nothing itself. It reads the workers' records, writes rows and
checkpoints, and publishes the shared parameters; see `shared_parameters`.
"""

import contextlib
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from absl import logging
import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.a3c import optimizers
from impala_tf.a3c import store as store_lib
from impala_tf.a3c import worker as worker_lib
from impala_tf.agents import saved as saved_lib
from impala_tf.core import experiment
from impala_tf.core import loop as loop_lib
from impala_tf.core import weights
from impala_tf.envs import environment as environment_lib
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.runs import hparams
from impala_tf.runs import metrics as metrics_lib
from impala_tf.runs import skipped_updates
from impala_tf.runtime import host as host_lib
from impala_tf.storage import checkpoint as checkpoint_lib

_PUBLISH_SECS = 1.  # Time between parameters for evaluators.
Record = Dict[str, Any]


class _Memory(tf.Module):
  """The optimiser's memory and the target network, in checkpoints.

  Shapes: S slots, P parameters.

  Attributes:
    slots: float32 variable [S, P].
    target_parameters: float32 variable [P].
  """

  def __init__(self, slots: np.ndarray, target_parameters: np.ndarray):
    super().__init__(name='asynchronous')
    self.slots = tf.Variable(slots, trainable=False)
    self.target_parameters = tf.Variable(target_parameters, trainable=False)


class Keeper:
  """The shared parameters as variables, for checkpoints and readers.

  Attributes:
    agent: agent with the parameters of the last `take`.
    hyperparameters: see `learner.Learner`; no worker reads them.
    num_updates: int64 variable, updates of all workers.
    num_frames: int64 variable, environment frames of all workers.
    saved: the counts, for a checkpoint.
    memory: the optimiser's memory and the target network.
  """

  def __init__(self, config: config_lib.Config,
               environment: environment_lib.BatchedEnvironment):
    """Makes fresh parameters, the same for the same seed."""
    self.agent = experiment.make_agent(config, environment)
    self.hyperparameters = hyperparameters_lib.Hyperparameters(config)
    self.num_updates = tf.Variable(0, trainable=False, dtype=tf.int64)
    self.num_frames = tf.Variable(0, trainable=False, dtype=tf.int64)
    self.saved = tf.Module()
    self.saved.num_updates = self.num_updates
    self.saved.num_frames = self.num_frames
    parameters = worker_lib.flatten(self.agent)
    name = config.asynchronous.optimizer
    shape = [optimizers.num_slots(name, config.asynchronous.num_workers),
             parameters.size]
    # Momenta begin at 0.
    start = 0. if name == 'momentum_sgd' else (
        config.asynchronous.initial_mean_square)
    self.memory = _Memory(np.full(shape, start, np.float32), parameters)

  def make_store(self) -> store_lib.Store:
    """Makes memory for workers, with copies of all variables here.

    Raises:
      ConfigError: this system has no such memory.
    """
    if not self.num_updates.numpy():  # The parameters may be another run's.
      self.memory.target_parameters.assign(worker_lib.flatten(self.agent))
    try:
      store = store_lib.make(self.memory.slots.shape[1],
                             self.memory.slots.shape[0])
    except (AttributeError, OSError) as error:
      raise config_lib.ConfigError(
          'workers need memory that processes share, which this system does '
          f"not have ({error}); set ExperimentConfig.algorithm to 'impala'"
      ) from error
    store.parameters[:] = worker_lib.flatten(self.agent)
    store.target_parameters[:] = self.memory.target_parameters.numpy()
    for slot, values in zip(store.slots, self.memory.slots.numpy()):
      slot[:] = values
    store.set_counts(int(self.num_frames.numpy()),
                     int(self.num_updates.numpy()))
    return store

  def count(self, store: store_lib.Store) -> None:
    """Takes the workers' counts."""
    counts = store.counts
    self.num_frames.assign(counts.num_frames)
    self.num_updates.assign(counts.num_updates)

  def take(self, store: store_lib.Store) -> None:
    """Takes the present counts and parameters, while workers go on."""
    self.count(store)
    worker_lib.assign(self.agent, store.parameters)

  def take_all(self, store: store_lib.Store) -> None:
    """Takes the optimiser's memory and the target network, too."""
    self.take(store)
    self.memory.slots.assign(np.stack(store.slots))
    self.memory.target_parameters.assign(store.target_parameters)


class Parts(NamedTuple):
  """The parts of the learner's process.

  Attributes:
    config: config of the run.
    run_dir: directory of the run.
    keeper: parameters as variables.
    store: the workers' memory.
    totals: totals of the run.
    checkpointer: writes checkpoints.
  """
  config: config_lib.Config
  run_dir: str
  keeper: Keeper
  store: store_lib.Store
  totals: loop_lib.Totals
  checkpointer: checkpoint_lib.Checkpointer

  def save(self, score: Optional[float]) -> None:
    """Writes a checkpoint of the shared parameters; raises OSError."""
    self.keeper.take_all(self.store)
    self.checkpointer.save(int(self.keeper.num_updates.numpy()), score)


def make_checkpointer(config: config_lib.Config, run_dir: str, keeper: Keeper,
                      totals: loop_lib.Totals,
                      configured: hyperparameters_lib.ConfiguredValues
                      ) -> checkpoint_lib.Checkpointer:
  """Makes the checkpointer of all that a run resumes from."""
  return checkpoint_lib.Checkpointer(
      run_dir, config.experiment.checkpoints_to_keep,
      agent=keeper.agent, learner=keeper.saved, totals=totals,
      hyperparameters=keeper.hyperparameters, configured=configured,
      asynchronous=keeper.memory)


def make(config: config_lib.Config, run_dir: str) -> Parts:
  """Makes the parts and restores the newest checkpoint.

  `run_dir` must exist.

  Raises:
    ConfigError: the config cannot be trained so.
    checkpoint.CheckpointError: all checkpoints are damaged.
  """
  environment = experiment.make_probe_environment(config)
  keeper = Keeper(config, environment)
  saved_lib.describe_agent(
      run_dir, keeper.agent, environment.observation_spec(), config.agent)
  environment.close()
  totals = loop_lib.Totals()
  configured = hyperparameters_lib.ConfiguredValues(keeper.hyperparameters)
  checkpointer = make_checkpointer(config, run_dir, keeper, totals, configured)
  restored = checkpointer.restore()
  configured.take_changes(keeper.hyperparameters)
  frames = int(keeper.num_frames.numpy())
  if restored:
    logging.info('Resuming from %s at %d frames', restored, frames)
  metrics_lib.drop_rows_after(run_dir, frames)
  hparams.write(run_dir, config, frames)
  return Parts(config, run_dir, keeper, keeper.make_store(), totals,
               checkpointer)


class _StorePublisher(weights.Publisher):
  """A publisher whose snapshots are of the shared parameters."""

  def __init__(self, address: str, parts: Parts):
    store = parts.store
    super().__init__(address, parts.keeper.agent.published_variables,
                     lambda version: store.counts.num_frames)
    self._store = store

  def snapshot(self) -> np.ndarray:
    """Copies the shared parameters, float32 [P]."""
    return self._store.parameters.copy()


def make_publisher(parts: Parts, address: str) -> weights.BackgroundPublisher:
  """Makes the publisher of shared parameters to evaluators and workers."""
  return weights.BackgroundPublisher(_StorePublisher(address, parts))


class _Reader:
  """A reader of the workers' records.

  Attributes:
    wait_secs: seconds spent so far in waiting for some.
  """

  def __init__(self, store: store_lib.Store, poll_secs: float):
    self.wait_secs = 0.
    self._store = store
    self._poll_secs = poll_secs
    self._num_read = 0

  def next(self, host: host_lib.LearnerHost) -> Optional[List[Record]]:
    """Returns new records, or None once the host says to stop."""
    start = time.monotonic()
    while not host.should_stop():
      time.sleep(self._poll_secs)
      records, self._num_read = self._store.new_records(self._num_read)
      if records:
        self.wait_secs += time.monotonic() - start
        return records
      host.on_wait(self._store.problem)
    return None


def _as_unroll(records: Sequence[Record]) -> types.Unroll:
  """Puts N records into an unroll [2, N] with the ends of their episodes."""
  ended = ['episode_return' in record for record in records]
  steps = np.full((2, len(records)), dm_env.StepType.MID, np.uint8)
  steps[1, ended] = int(dm_env.StepType.FIRST)

  def of_episodes(name, dtype):
    return tf.constant(
        np.array([[record.get(name, 0) for record in records]] * 2, dtype))

  return types.Unroll(
      types.EnvOutput(
          step_type=tf.constant(steps), reward=(), discount=(), observation=(),
          episode_return=of_episodes('episode_return', np.float32),
          episode_steps=of_episodes('episode_steps', np.int32)),
      agent_outputs=(), core_state=(), policy_version=(),
      level_index=tf.zeros(len(records), tf.int32))


def _means(records: Sequence[Record]) -> Dict[str, float]:
  """Averages each metric over the records that have it."""
  values: Dict[str, List[float]] = {}
  for record in records:
    for name, value in record['metrics'].items():
      values.setdefault(name, []).append(value)
  return {name: float(np.mean(numbers)) for name, numbers in values.items()}


class _Log:
  """A log of the workers' records: rows, and counts of skipped updates."""

  def __init__(self, parts: Parts, reader: _Reader, interval_secs: float):
    self.skipped = skipped_updates.SkippedUpdates(
        parts.run_dir, parts.config.optimizer.max_skipped_updates)
    self.rows = loop_lib.TrainingLog(
        parts.run_dir, interval_secs, 1, parts.keeper, parts.totals, reader,
        num_fresh=sys.maxsize, gauges=lambda: {
            'updates_skipped': self.skipped.total,
            'target_syncs': parts.store.counts.num_syncs})

  def add(self, records: Sequence[Record]) -> Dict[str, float]:
    """Adds records; returns the means of their metrics.

    Raises:
      UserError: too many updates were skipped.
    """
    learned = [record for record in records if not self.skipped.add(
        record['metrics']['gradient_norm'], record['worker'])]
    metrics = _means(learned)
    self.rows.add(
        _as_unroll(records), metrics,
        np.array([record['lag'] for record in records], np.int64))
    self.skipped.check()
    return metrics


def run(parts: Parts, host: host_lib.LearnerHost,
        publisher: Optional[weights.BackgroundPublisher] = None,
        log_interval_secs: float = 0., poll_secs: float = 0.,
        callbacks: Sequence[loop_lib.Callback] = ()) -> bool:
  """Collects the workers' results until the run is done or the host stops it.

  Args:
    publisher: publishes parameters at intervals; None if nobody reads them.
    log_interval_secs: seconds between rows; 0 for a row for each batch of
      records.
    poll_secs: time between two looks at the workers' records.
    callbacks: called after each batch of records, with the means of its
      metrics.

  Returns:
    Whether the run is done, see `loop_lib.train`.

  Raises:
    OSError: the last checkpoint could not be written.
    UserError: see `skipped_updates.SkippedUpdates`.
  """
  keeper, store = parts.keeper, parts.store
  experiment_config = parts.config.experiment
  reader = _Reader(store, poll_secs)
  log = _Log(parts, reader, log_interval_secs)
  next_publication = 0.
  is_done = True
  with loop_lib.Saves(experiment_config.checkpoint_interval_secs, parts.save,
                      log.rows, host) as saves, (
                          contextlib.suppress(loop_lib.StopTraining)):
    # By what was read: workers may have reached the end meanwhile.
    while (keeper.num_frames.numpy() < experiment_config.total_frames and
           not log.rows.has_reached(experiment_config.stop_at_return)):
      if publisher is not None and time.monotonic() >= next_publication:
        publisher.publish(store.counts.num_updates)
        next_publication = time.monotonic() + _PUBLISH_SECS
      host.before_batch()
      records = reader.next(host)
      if records is None:
        is_done = False
        break
      keeper.count(store)
      metrics = log.add(records)
      if log.rows.is_due:
        host.on_row(log.rows.write_row())
      saves.save_if_due()
      log.rows.notify(callbacks, metrics)
  logging.info('%d frames in %d updates', keeper.num_frames.numpy(),
               keeper.num_updates.numpy())
  return is_done
