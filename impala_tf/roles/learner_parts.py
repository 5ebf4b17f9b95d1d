"""The parts of a learner, made from the config and restored together."""

import functools
from typing import NamedTuple, Optional

from absl import logging
import reverb

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import replayed_memory
from impala_tf.agents import saved as saved_lib
from impala_tf.comms import config_table
from impala_tf.comms import parameter_memory
from impala_tf.comms import reverb_calls
from impala_tf.comms import unroll_filter
from impala_tf.config import fingerprint as fingerprint_lib
from impala_tf.core import batches as dataset_lib
from impala_tf.core import experiment
from impala_tf.core import learner as learner_lib
from impala_tf.core import loop as loop_lib
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.envs import environment as environment_lib
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.pbt import member as member_lib
from impala_tf.replay import pacing
from impala_tf.replay import priorities
from impala_tf.replay import shared_replay
from impala_tf.roles import batched_a2c
from impala_tf.runs import hparams
from impala_tf.runs import level_metrics
from impala_tf.runs import metrics as metrics_lib
from impala_tf.runtime import interfaces
from impala_tf.runtime import learner_group
from impala_tf.runtime import precision
from impala_tf.storage import checkpoint as checkpoint_lib
from impala_tf.suites import levels as levels_lib


class Place(NamedTuple):
  """A learner's directory, port, and place among agents that share a replay.

  Attributes:
    run_dir: directory of the run, which exists; checkpoints in it are resumed
      from.
    port: port of the Reverb server; None for a free one.
    replay_address: 'host:port' of a replay that several agents share; None:
      the replay, if any, is in this learner's own server.
    agent: number of this agent among those.
  """
  run_dir: str
  port: Optional[int] = None
  replay_address: Optional[str] = None
  agent: int = 0


class LearnerParts(NamedTuple):
  """The parts that learning needs, however its loop is run.

  Attributes:
    config: config with numbers for all options left to the machine.
    log_dir: directory for the rows of this learner.
    learners: all learners of the run, mostly one.
    learner: updates the parameters.
    totals: totals of the run beside the learner's counts.
    saver: writes checkpoints.
    server: serves queue, replay, parameters and config.
    publisher: hands parameters to the actors.
    memory: shares parameters with processes on this machine; None if it was not
      asked for, or the system has none.
    reader: gives batches.
    refusals: counts refused unrolls.
    level_log: makes columns of each level; None for a single level.
    link: connection to a shared replay; None if the replay, if any, is in the
      learner's own server.
  """
  config: config_lib.Config
  log_dir: str
  learners: learner_group.Learners
  learner: interfaces.Learner
  totals: loop_lib.Totals
  saver: loop_lib.Saver
  server: reverb.Server
  publisher: weights.Publisher
  memory: Optional[parameter_memory.Memory]
  reader: interfaces.Reader
  refusals: unroll_filter.Refusals
  level_log: Optional[level_metrics.LevelLog]
  link: Optional[shared_replay.Link] = None

  @property
  def address(self) -> str:
    """'host:port' of the server, on this machine."""
    return f'localhost:{self.server.port}'


def make(config: config_lib.Config, announced: config_lib.Config, place: Place,
         queue_capacity: int, learners: learner_group.Learners,
         shares_memory: bool = False) -> LearnerParts:
  """Makes the learner's parts and restores the newest checkpoint.

  Args:
    config: config with numbers for all options left to the machine.
    announced: the config as it was given, which actors receive.
    queue_capacity: most unrolls in the queue.
    shares_memory: whether to share parameters on this machine in memory.

  Raises:
    OSError: if the port is taken.
    ConfigError: if the config cannot be trained so.
    ConnectionError: if a replay elsewhere does not answer.
    checkpoint.CheckpointError: if all checkpoints are damaged.
  """
  link = None
  if place.replay_address is not None:
    link = shared_replay.Link(
        place.replay_address, place.agent,
        fingerprint_lib.of_unrolls(config), learners.is_chief)
  environment = experiment.make_probe_environment(config)
  learners.require_same(
      announced, config.learner.num_threads,
      precision.of_learner(
          config, learners.strategy.extended.worker_devices[0]))
  learner = experiment.make_learner(config, environment, learners.strategy)
  totals = loop_lib.Totals(len(levels_lib.expand(config.environment.level)))
  log_dir = learners.own_directory(place.run_dir)
  member_state = member_lib.make_state(config)
  checkpointer = _restore(config, place, log_dir, environment, learner, totals,
                          member_state, learners.is_chief)
  looped = learners.wrap_learner(learner)
  if member_state is not None:  # It is the only learner of its run.
    looped = member_lib.Member(
        config, place.run_dir, learner, member_state, checkpointer)
  spec = experiment.make_unroll_spec(config, environment, learner.agent)
  memory = None
  if shares_memory:
    memory = parameter_memory.make(
        weights.num_parameters(learner.agent.published_variables))
  server = _serve(
      config, announced, place, spec, queue_capacity, learner, memory)
  address = f'localhost:{server.port}'
  if config.has_priorities:  # A replay that agents share has none.
    looped = priorities.PrioritisingLearner(looped, address, queue_lib.REPLAY)
  publisher = _publish_first(
      config, address, environment, learner, learners)
  refusals = unroll_filter.Refusals()
  reader = _make_reader(
      config, address, place, spec, learners, refusals,
      _make_recompute(config, address, environment), learner)
  if link is not None and learners.is_chief:  # All wait for the chief's batch.
    reader = pacing.PacedReader(
        reader, link, lambda: int(learner.num_frames.numpy()),
        _frames_per_update(config, environment),
        config.experiment.total_frames)
  level_log = _make_level_log(config, environment, totals)
  environment.close()
  return LearnerParts(
      config, log_dir, learners, looped, totals,
      _make_saver(config, place, address, checkpointer, learners.is_chief),
      server, publisher, memory, learners.wrap_reader(reader), refusals,
      level_log, link)


def _restore(config: config_lib.Config, place: Place, log_dir: str,
             environment: environment_lib.BatchedEnvironment,
             learner: learner_lib.Learner, totals: loop_lib.Totals,
             member_state: Optional[member_lib.State], is_chief: bool
             ) -> checkpoint_lib.Checkpointer:
  """Restores the newest checkpoint, if any; returns the checkpointer."""
  if is_chief:
    saved_lib.describe_agent(place.run_dir, learner.agent,
                             environment.observation_spec(), config.agent)
  configured = hyperparameters_lib.ConfiguredValues(learner.hyperparameters)
  checkpointer = make_checkpointer(
      config, place.run_dir, learner, totals, configured, member_state)
  restored = checkpointer.restore(tidy=is_chief)
  configured.take_changes(learner.hyperparameters)
  frames = int(learner.num_frames.numpy())
  if restored:
    logging.info('Resuming from %s at %d frames', restored, frames)
  metrics_lib.drop_rows_after(log_dir, frames)
  if is_chief:
    hparams.write(log_dir, config, frames)
  return checkpointer


def make_checkpointer(config: config_lib.Config, run_dir: str,
                      learner: learner_lib.Learner, totals: loop_lib.Totals,
                      configured: hyperparameters_lib.ConfiguredValues,
                      member_state: Optional[member_lib.State] = None
                      ) -> checkpoint_lib.Checkpointer:
  """Makes the checkpointer of all state that a run resumes from."""
  return checkpoint_lib.Checkpointer(
      run_dir, config.experiment.checkpoints_to_keep,
      # Runs of version 0.1.0, and first checkpoints of warm starts, have none.
      optional=('hyperparameters', 'configured', 'population'),
      agent=learner.agent, learner=learner.saved, totals=totals,
      hyperparameters=learner.hyperparameters, configured=configured,
      **({} if member_state is None else {'population': member_state}))


def _serve(config: config_lib.Config, announced: config_lib.Config,
           place: Place, spec: types.Unroll, queue_capacity: int,
           learner: learner_lib.Learner,
           memory: Optional[parameter_memory.Memory]) -> reverb.Server:
  """Starts the Reverb server and publishes the config."""
  tables = experiment.make_tables(
      config, spec, queue_capacity, has_replay=place.replay_address is None)
  replay_dir = None
  if _saves_replay(config, place):
    replay_dir = checkpoint_lib.replay_directory(place.run_dir)
  server = queue_lib.make_server(
      [*tables,
       *weights.make_tables(learner.agent.published_variables, memory),
       config_table.make_table(announced)], place.port, replay_dir)
  config_table.publish(f'localhost:{server.port}', announced)
  return server


def _saves_replay(config: config_lib.Config, place: Place) -> bool:
  """Whether the learner's own server writes its replay with checkpoints."""
  return bool(config.num_replayed and config.replay.survives_resume and
              place.replay_address is None)


def _publish_first(config: config_lib.Config, address: str,
                   environment: environment_lib.BatchedEnvironment,
                   learner: learner_lib.Learner,
                   learners: learner_group.Learners) -> weights.Publisher:
  """Publishes the parameters that learning begins with."""
  version, frames = (int(variable.numpy()) for variable in (
      learner.num_updates, learner.num_frames))
  # Only of this process: the config may have been another before.
  frames_per_update = _frames_per_update(config, environment)
  publisher = weights.Publisher(
      address, learner.agent.published_variables,
      lambda later: frames + (later - version) * frames_per_update)
  parameters = publisher.snapshot()
  learners.require_same_parameters(parameters, version)
  publisher.publish(version, parameters)
  return publisher


def _frames_per_update(config: config_lib.Config,
                       environment: environment_lib.BatchedEnvironment) -> int:
  """Counts the frames of an update of all learners together."""
  return (config.learner.num_learners * config.num_fresh
          * config.learner.unroll_length * environment.frames_per_step)


def _make_reader(config: config_lib.Config, address: str, place: Place,
                 spec: types.Unroll, learners: learner_group.Learners,
                 refusals: unroll_filter.Refusals,
                 recompute: Optional[replayed_memory.MemoryRecomputer],
                 learner: learner_lib.Learner) -> interfaces.Reader:
  """Makes the reader, which places observations on the right device."""
  devices = learners.strategy.extended.worker_devices
  # Several devices share the batch out from the host.
  device = '/cpu:0' if len(devices) > 1 else devices[0]
  prepare = functools.partial(dataset_lib.place_observations, device=device)
  if config.learner_plays:
    return batched_a2c.PlayingReader(config, learner, spec, prepare)
  first_version = None
  if config.actor.synchronisation != 'none':
    first_version = int(learner.num_updates.numpy())
  return dataset_lib.BatchReader(
      experiment.make_dataset(
          config, address, spec, refusals, place.replay_address, recompute,
          place.agent, first_version), prepare, refusals)


def _make_recompute(config: config_lib.Config, address: str,
                    environment: environment_lib.BatchedEnvironment
                    ) -> Optional[replayed_memory.MemoryRecomputer]:
  """Makes the recomputer of replayed memory; None if memory is stored.

  It has its own agent, as an actor has: it runs in the reader's thread while
  the learner changes its parameters.
  """
  if config.chain_unrolls is None or config.replay.core_state == 'stored':
    return None
  agent = experiment.make_agent(config, environment)
  return replayed_memory.MemoryRecomputer(
      agent, weights.Fetcher(address, agent.published_variables))


def _make_level_log(config: config_lib.Config,
                    environment: environment_lib.BatchedEnvironment,
                    totals: loop_lib.Totals
                    ) -> Optional[level_metrics.LevelLog]:
  """Makes the log of each level; None for a single level."""
  if totals.level_frames is None:
    return None
  return level_metrics.LevelLog(
      levels_lib.expand(config.environment.level), totals.level_frames,
      config.learner.unroll_length * environment.frames_per_step)


def _make_saver(config: config_lib.Config, place: Place, address: str,
                checkpointer: checkpoint_lib.Checkpointer,
                is_chief: bool) -> loop_lib.Saver:
  """Makes the saver: only the chief among learners writes checkpoints."""
  if not is_chief:
    return _NoSaver()
  if _saves_replay(config, place):
    return _ReplaySaver(checkpointer, address)
  return checkpointer


class _NoSaver:
  """A `loop_lib.Saver` for learners that are not the chief."""

  def save(self, number: int, score: Optional[float]) -> None:
    del number, score


class _ReplaySaver:
  """A `loop_lib.Saver` that also writes the replay."""

  def __init__(self, checkpointer: checkpoint_lib.Checkpointer, address: str):
    self._checkpointer = checkpointer
    self._client = reverb.Client(address)

  def save(self, number: int, score: Optional[float]) -> None:
    # In this order: unrolls of the future would have a lag below 0.
    self._checkpointer.save(number, score)
    reverb_calls.save(self._client)
