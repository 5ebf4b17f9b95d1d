"""A3C's parameter server: workers' parameters and records for the learner loop.

The workers make the updates, and leave a record of each. The server reads the
records, and the learner's loop logs them; see `roles.shared_parameters`.
"""

import collections
import dataclasses
import time
from typing import Any, Callable, NamedTuple, Sequence

import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.a3c import store as store_lib
from impala_tf.agents import acting
from impala_tf.core import experiment
from impala_tf.core import weights
from impala_tf.envs import environment as environment_lib
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.runs import skipped_updates
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces

Record = dict[str, Any]


class Segments(NamedTuple):
  """A batch of N updates by workers, one per segment, for log and callbacks."""
  # `types.EnvOutput` [2, N] with the ends of their episodes.
  env_outputs: types.EnvOutput
  policy_version: Any  # int64 [N], updates behind the parameters that played.
  level_index: Any  # int32 [N], zeros.
  records: Sequence[Record]
  counts: store_lib.Counts  # Of all workers up to these.


class ParameterServer:
  """The workers' shared parameters as variables, for checkpoints and readers.

  To the loop it is a learner, whose updates and frames are those of all
  workers; `saved` has both counts for a checkpoint. `agent` has the parameters
  of the last `take_all`.
  """

  def __init__(self, config: config_lib.Config,
               environment: environment_lib.BatchedEnvironment):
    self.agent = experiment.make_agent(config, environment)
    self.hyperparameters = hyperparameters_lib.Hyperparameters(config)
    self.num_updates = tf.Variable(0, trainable=False, dtype=tf.int64)
    self.num_frames = tf.Variable(0, trainable=False, dtype=tf.int64)
    self.saved = tf.Module()
    self.saved.num_updates = self.num_updates
    self.saved.num_frames = self.num_frames
    self._assign = acting.make_assign(self.agent.trainable_variables)
    self._flatten = weights.make_snapshot(self.agent.trainable_variables)
    parameters = self._flatten()
    name = config.asynchronous.optimizer
    shape = [store_lib.num_slots(name, config.asynchronous.num_workers),
             parameters.size]
    # Momenta begin at 0.
    start = 0. if name == 'momentum_sgd' else (
        config.asynchronous.initial_mean_square)
    # The optimiser's slots [S, P] and target network [P], in checkpoints.
    self.memory = tf.Module(name='asynchronous')
    self.memory.slots = tf.Variable(
        np.full(shape, start, np.float32), trainable=False)
    self.memory.target_parameters = tf.Variable(parameters, trainable=False)

  def make_store(self) -> store_lib.Store:
    """Makes the workers' shared memory and copies all variables into it.

    Raises ConfigError if this system has no such memory.
    """
    if not self.num_updates.numpy():  # The parameters may be another run's.
      self.memory.target_parameters.assign(self._flatten())
    try:
      store = store_lib.make(*reversed(self.memory.slots.shape))
    except (AttributeError, OSError) as error:
      raise config_lib.ConfigError(
          'workers need memory that processes share, which this system does '
          f"not have ({error}); set ExperimentConfig.algorithm to 'impala'"
      ) from error
    store.parameters[:] = self._flatten()
    store.target_parameters[:] = self.memory.target_parameters.numpy()
    for slot, values in zip(store.slots, self.memory.slots.numpy()):
      slot[:] = values
    store.set_counts(int(self.num_frames.numpy()),
                     int(self.num_updates.numpy()))
    return store

  def update(self, segments: Segments) -> dict[str, float]:
    """Copies the workers' counts; returns {}: the records have the metrics."""
    self._take_counts(segments.counts)
    return {}

  def _take_counts(self, counts: store_lib.Counts) -> None:
    self.num_frames.assign(counts.num_frames)
    self.num_updates.assign(counts.num_updates)

  def take_all(self, store: store_lib.Store) -> None:
    """Copies the store's counts, parameters, slots and target network."""
    self._take_counts(store.counts)
    self._assign(tf.constant(store.parameters))
    self.memory.slots.assign(np.stack(store.slots))
    self.memory.target_parameters.assign(store.target_parameters)


@dataclasses.dataclass
class SegmentReader:
  """A reader that returns all new records of the workers as one batch."""
  server: ParameterServer
  store: store_lib.Store
  poll_secs: float
  on_poll: Callable[[], None]  # Called before each look; may raise.
  num_read: int = 0

  def poll(self, control: control_lib.LoopControl) -> Segments | None:
    """Returns new records; None, after `control.on_wait`, if there are none."""
    self.on_poll()
    time.sleep(self.poll_secs)
    records, self.num_read = self.store.new_records(self.num_read)
    if not records:
      control.on_wait(self.store.problem)
      return None
    # The loop subtracts these again: `links` has measured the lags.
    version = self.server.num_updates.numpy()
    lags = np.array([record['lag'] for record in records], np.int64)
    return Segments(
        _ends_of_episodes(records), tf.constant(version - lags),
        tf.zeros(len(records), tf.int32), records, self.store.counts)


def _ends_of_episodes(records: Sequence[Record]) -> types.EnvOutput:
  """Converts N records to environment outputs [2, N] of T = 1, for the log."""
  ended = ['episode_return' in record for record in records]
  steps = np.full((2, len(records)), dm_env.StepType.MID, np.uint8)
  steps[1, ended] = int(dm_env.StepType.FIRST)

  def of_episodes(name, dtype):
    return tf.constant(
        np.array([[record.get(name, 0) for record in records]] * 2, dtype))

  return types.EnvOutput(
      step_type=tf.constant(steps),
      episode_return=of_episodes('episode_return', np.float32),
      episode_steps=of_episodes('episode_steps', np.int32))


@dataclasses.dataclass
class SegmentMetrics:
  """A callback that averages the metrics of segments that were not skipped."""
  skipped: skipped_updates.SkippedUpdates

  def after_update(self, update: interfaces.Update) -> None:
    values: dict[str, list[float]] = collections.defaultdict(list)
    for record in update.batch.records:
      if not self.skipped.add(record['metrics']['gradient_norm'],
                              record['worker']):
        for name, value in record['metrics'].items():
          values[name].append(value)
    # Some segments have no step with a choice, and so no share of entropy.
    update.metrics = {name: float(np.mean(known))
                      for name, numbers in values.items()
                      if (known := [n for n in numbers if not np.isnan(n)])}
