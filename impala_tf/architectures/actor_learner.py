"""IMPALA's architecture: a learner with its queue, and actors that feed it.

Section 3 of Espeholt et al. 2018: actors play with parameters that may be a few
updates old and send unrolls; the learner, or several that update together,
learns from batches of them.
"""

import functools
from typing import Callable, Mapping, NamedTuple, Optional

from absl import logging
import reverb

from impala_tf import config as config_lib
from impala_tf import dataset as dataset_lib
from impala_tf import dynamic_batching_actor
from impala_tf import experiment
from impala_tf import learner as learner_lib
from impala_tf import replay
from impala_tf import training
from impala_tf import types
from impala_tf import weights
from impala_tf.agents import saved as saved_lib
from impala_tf.envs import environment as environment_lib
from impala_tf.monitoring import level_metrics
from impala_tf.monitoring import metrics as metrics_lib
from impala_tf.monitoring import profiling
from impala_tf.monitoring import skipped_updates
from impala_tf.processes import host as host_lib
from impala_tf.processes import interfaces
from impala_tf.processes import learner_group
from impala_tf.processes import sizing
from impala_tf.processes import tf_threads
from impala_tf.storage import checkpoint as checkpoint_lib
from impala_tf.suites import levels as levels_lib
from impala_tf.transport import config_table
from impala_tf.transport import reverb_calls
from impala_tf.transport import unroll_filter


class Place(NamedTuple):
  """A learner's directory, port, and address of the replay.

  Attributes:
    run_dir: directory of the run, which exists; checkpoints in it are resumed
      from.
    port: port of the Reverb server; None for a free one.
    replay_address: 'host:port' of a replay that several learners share; None:
      the replay, if any, is in this learner's own server.
  """
  run_dir: str
  port: Optional[int] = None
  replay_address: Optional[str] = None


class LearnerParts(NamedTuple):
  """The parts that learning needs, however its loop is run.

  Attributes:
    config: config with numbers for all that was left to the machine.
    place: directory and addresses of the learner.
    log_dir: directory for the rows of this learner.
    learners: all learners of the run, mostly one.
    learner: updates the parameters.
    totals: totals of the run beside the learner's counts.
    saver: writes checkpoints.
    server: serves queue, replay, parameters and config.
    publisher: hands parameters to the actors.
    reader: gives batches.
    refusals: counts unrolls that were refused.
    level_log: tells levels apart; None where there is one.
  """
  config: config_lib.Config
  place: Place
  log_dir: str
  learners: learner_group.Learners
  learner: interfaces.Learner
  totals: training.Totals
  saver: training.Saver
  server: reverb.Server
  publisher: weights.Publisher
  reader: interfaces.Reader
  refusals: unroll_filter.Refusals
  level_log: Optional[level_metrics.LevelLog]

  @property
  def address(self) -> str:
    """'host:port' of the server, on this machine."""
    return f'localhost:{self.server.port}'


def make_learner_parts(config: config_lib.Config, announced: config_lib.Config,
                       place: Place, queue_capacity: int,
                       learners: learner_group.Learners) -> LearnerParts:
  """Makes the learner's parts and restores the newest checkpoint.

  Args:
    config: config with numbers for all that was left to the machine.
    announced: the config as it was given, which actors are to have.
    place: directory and addresses of the learner.
    queue_capacity: most unrolls in the queue.
    learners: all learners of the run.

  Raises:
    OSError: where the port is taken.
    ConfigError: where the config cannot be trained so.
    checkpoint.CheckpointError: where all checkpoints are damaged.
  """
  environment = experiment.make_probe_environment(config)
  learners.require_same(announced, config.learner.num_threads)
  learner = experiment.make_learner(config, environment, learners.strategy)
  totals = training.Totals(len(levels_lib.expand(config.environment.level)))
  log_dir = learners.own_directory(place.run_dir)
  checkpointer = _restore(config, place, log_dir, environment, learner, totals,
                          learners.is_chief)
  spec = experiment.make_unroll_spec(config, environment, learner.agent)
  server = _serve(config, announced, place, spec, queue_capacity, learner)
  address = f'localhost:{server.port}'
  publisher = _publish_first(address, learner, learners)
  refusals = unroll_filter.Refusals()
  reader = _make_reader(
      config, address, place, spec, learners, refusals)
  level_log = _make_level_log(config, environment, totals)
  environment.close()
  return LearnerParts(
      config, place, log_dir, learners, learners.wrap_learner(learner), totals,
      _make_saver(config, place, address, checkpointer, learners.is_chief),
      server, publisher, learners.wrap_reader(reader), refusals, level_log)


def _restore(config: config_lib.Config, place: Place, log_dir: str,
             environment: environment_lib.BatchedEnvironment,
             learner: learner_lib.Learner, totals: training.Totals,
             is_chief: bool) -> checkpoint_lib.Checkpointer:
  """Restores the newest checkpoint, if any; returns what writes the next."""
  if is_chief:
    saved_lib.describe_agent(place.run_dir, learner.agent,
                             environment.observation_spec(), config.agent)
  checkpointer = checkpoint_lib.Checkpointer(
      place.run_dir, config.experiment.checkpoints_to_keep,
      optional=('hyperparameters',),  # Runs of version 0.1.0 have none.
      agent=learner.agent, learner=learner.saved, totals=totals,
      hyperparameters=learner.hyperparameters)
  restored = checkpointer.restore(tidy=is_chief)
  frames = int(learner.num_frames.numpy())
  if restored:
    logging.info('Resuming from %s at %d frames', restored, frames)
  metrics_lib.drop_rows_after(log_dir, frames)
  return checkpointer


def _serve(config: config_lib.Config, announced: config_lib.Config,
           place: Place, spec: types.Unroll, queue_capacity: int,
           learner: learner_lib.Learner) -> reverb.Server:
  """Starts the Reverb server and tells the config to all that connect."""
  tables = experiment.make_tables(
      config, spec, queue_capacity, has_replay=place.replay_address is None)
  replay_dir = None
  if _saves_replay(config, place):
    replay_dir = checkpoint_lib.replay_directory(place.run_dir)
  server = replay.make_server(
      [*tables, weights.make_table(learner.agent.trainable_variables),
       config_table.make_table(announced)], place.port, replay_dir)
  config_table.publish(f'localhost:{server.port}', announced)
  return server


def _saves_replay(config: config_lib.Config, place: Place) -> bool:
  """Whether the learner's own server writes its replay with checkpoints."""
  if not (config.num_replayed and config.replay.survives_resume):
    return False
  if place.replay_address is not None:
    raise config_lib.ConfigError(
        'ReplayConfig.survives_resume is for a replay in the learner\'s own '
        f'server, but --replay_address is {place.replay_address}; leave one of '
        'them out')
  return True


def _publish_first(address: str, learner: learner_lib.Learner,
                   learners: learner_group.Learners) -> weights.Publisher:
  """Publishes the parameters that learning begins with."""
  publisher = weights.Publisher(address, learner.agent.trainable_variables)
  version, parameters = int(learner.num_updates.numpy()), publisher.snapshot()
  learners.require_same_parameters(parameters, version)
  publisher.publish(version, parameters)
  return publisher


def _make_reader(config: config_lib.Config, address: str, place: Place,
                 spec: types.Unroll, learners: learner_group.Learners,
                 refusals: unroll_filter.Refusals) -> dataset_lib.BatchReader:
  """Makes the reader, which puts observations where the step wants them."""
  devices = learners.strategy.extended.worker_devices
  # Several devices share the batch out from the host.
  device = '/cpu:0' if len(devices) > 1 else devices[0]
  return dataset_lib.BatchReader(
      experiment.make_dataset(
          config, address, spec, refusals, place.replay_address),
      functools.partial(dataset_lib.place_observations, device=device),
      refusals)


def _make_level_log(config: config_lib.Config,
                    environment: environment_lib.BatchedEnvironment,
                    totals: training.Totals
                    ) -> Optional[level_metrics.LevelLog]:
  """Makes the log that tells levels apart, where there are several."""
  if totals.level_frames is None:
    return None
  return level_metrics.LevelLog(
      levels_lib.expand(config.environment.level), totals.level_frames,
      config.learner.unroll_length * environment.frames_per_step)


def _make_saver(config: config_lib.Config, place: Place, address: str,
                checkpointer: checkpoint_lib.Checkpointer,
                is_chief: bool) -> training.Saver:
  """Makes what writes checkpoints: only the chief among learners does."""
  if not is_chief:
    return _NoSaver()
  if _saves_replay(config, place):
    return _ReplaySaver(checkpointer, address)
  return checkpointer


class _NoSaver:
  """A `training.Saver` of a learner that leaves checkpoints to the chief."""

  def save(self, number: int) -> None:
    del number


class _ReplaySaver:
  """A `training.Saver` that also writes the replay."""

  def __init__(self, checkpointer: checkpoint_lib.Checkpointer, address: str):
    self._checkpointer = checkpointer
    self._client = reverb.Client(address)

  def save(self, number: int) -> None:
    # In this order: unrolls of the future would have a lag below 0.
    self._checkpointer.save(number)
    try:
      self._client.checkpoint()
    except RuntimeError as error:
      raise OSError(f'the replay could not be saved: {error}') from error


class _Gauges:
  """Columns of the rows that are read off when a row is written."""

  def __init__(self, parts: LearnerParts,
               skipped: skipped_updates.SkippedUpdates):
    self._refusals = parts.refusals
    self._skipped = skipped
    self._tables = [(replay.QUEUE, reverb.Client(parts.address))]
    if parts.config.num_replayed:
      self._tables.append((replay.REPLAY, reverb.Client(
          parts.place.replay_address or parts.address)))

  def read(self) -> Mapping[str, float]:
    """Reads them; raises ConnectionError where a server does not answer."""
    # Asked of the server: the tables that it was made of are not its own if it
    # restored any.
    row = {'unrolls_refused': self._refusals.total,
           'updates_skipped': self._skipped.total}
    for table, client in self._tables:
      info = reverb_calls.server_info(client)[table]
      row[f'{table}_occupancy'] = info.current_size / info.max_size
    return row


def train(parts: LearnerParts, publisher: training.Publisher,
          log_interval_secs: float, host: host_lib.LearnerHost) -> None:
  """Runs the loop over a learner's parts; see `training.train`."""
  config = parts.config
  skipped = skipped_updates.SkippedUpdates(
      parts.log_dir, config.optimizer.max_skipped_updates)
  log = training.TrainingLog(
      parts.log_dir, log_interval_secs, parts.learner, parts.totals,
      parts.reader, config.num_fresh, _Gauges(parts, skipped).read,
      parts.level_log, parts.learners.concatenate)
  training.train(config.experiment, parts.learner, parts.reader, publisher,
                 parts.saver, log, skipped, host)


class _ProfilingHost(host_lib.LearnerHost):
  """A host that records a profile as well."""

  def __init__(self, host: host_lib.LearnerHost, log_dir: str):
    self._profiler = profiling.LearnerProfiler(log_dir)
    self._host = host
    self.should_stop = host.should_stop
    self.on_wait = host.on_wait
    self.on_row = host.on_row

  def before_batch(self) -> None:
    self._host.before_batch()
    self._profiler()


def run_learner(config: config_lib.Config, place: Place,
                host: host_lib.LearnerHost,
                join: Callable[[], learner_group.Learners] =
                learner_group.alone, profile: bool = False) -> bool:
  """Runs the learner's process, with the Reverb server embedded.

  Args:
    config: config of the run.
    place: directory and addresses of the learner.
    host: the process that this runs in.
    join: waits for all learners of the run; returns them.
    profile: whether to record a few updates for TensorBoard.

  Returns:
    Whether all frames are learned from; else it, or another, was to stop.

  Raises:
    OSError: where the port is taken.
    PeerLost: where another learner has gone.
    checkpoint.CheckpointError: where all checkpoints are damaged.
  """
  announced, config = config, sizing.fit(config)
  tf_threads.set_threads(config.learner.num_threads)
  learners = join()
  with learners.noticing_loss():
    parts = make_learner_parts(
        config, announced, place, config.learner.queue_capacity, learners)
    publisher = weights.BackgroundPublisher(parts.publisher)
    if profile:
      host = _ProfilingHost(host, parts.log_dir)
    train(parts, publisher, config.experiment.log_interval_secs, host)
    return bool(parts.learner.num_frames.numpy() >=
                config.experiment.total_frames)


def start_actor(config: config_lib.Config, address: str, seed: int, task: int,
                host: host_lib.ActorHost, run_table: Optional[str] = None,
                replay_address: Optional[str] = None
                ) -> dynamic_batching_actor.AnyActor:
  """Makes an actor that holds the learner's parameters.

  Args:
    config: config with numbers for all that was left to the machine.
    address: 'host:port' of the learner's server.
    seed: see `run_actor`.
    task: see `run_actor`.
    host: see `run_actor`.
    run_table: see `weights.Fetcher`.
    replay_address: 'host:port' of the replay's server; None: the learner's.

  Raises:
    ConnectionError: where a server does not answer, or is of another run.
  """
  environment_seed, policy_seed = experiment.make_seeds(
      config.experiment.seed, seed)
  environment = experiment.make_actor_environment(
      config, environment_seed, task)
  agent = experiment.make_agent(config, environment)
  host.wait_for_learner()
  fetcher = weights.Fetcher(address, agent.trainable_variables, run_table,
                            config.actor.fetch_interval_unrolls)
  fetcher.wait(host.poll)
  spec = experiment.make_unroll_spec(config, environment, agent)
  writer = experiment.make_writer(config, address, spec, task, replay_address)
  return experiment.make_actor(
      config, agent, environment, writer, fetcher, spec, policy_seed)


def run_actor(config: config_lib.Config, address: str, seed: int, task: int,
              host: host_lib.ActorHost,
              replay_address: Optional[str] = None) -> None:
  """Runs an actor's process: plays until killed, having nothing to save.

  Args:
    config: config of the run.
    address: 'host:port' of the learner's server.
    seed: differs between the actors of a run, and from that of an actor which
      has died.
    task: number of the actor, 0 to `ActorConfig.num_actors` - 1. It decides
      which of several levels are played.
    host: the process that this runs in.
    replay_address: 'host:port' of the replay's server; None: the learner's.

  Raises:
    ConnectionError: where the learner does not answer, or has another config.
  """
  run_table = config_table.table_name(config)
  config = sizing.fit(config)
  tf_threads.set_threads(1)
  actor = start_actor(
      config, address, seed, task, host, run_table, replay_address)
  try:
    while True:
      actor.run_unroll()
      host.on_unroll(actor.stopwatch.secs)
  finally:
    actor.close()
