"""The wiring: parts are made from the config and run in their roles."""

import functools
from typing import Callable, List, Mapping, NamedTuple, Optional, Sequence

from absl import logging
import numpy as np
import reverb
import tensorflow as tf

from impala_tf import actor as actor_lib
from impala_tf import config as config_lib
from impala_tf import config_fingerprint
from impala_tf import dataset as dataset_lib
from impala_tf import dynamic_batching_actor
from impala_tf import learner as learner_lib
from impala_tf import replay
from impala_tf import training
from impala_tf import types
from impala_tf import weights
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import impala
from impala_tf.algorithms import impala_popart
from impala_tf.envs import environment as environment_lib
from impala_tf.envs import factory
from impala_tf.envs import multi_level
from impala_tf.maths import distributions
from impala_tf.maths import optimizers
from impala_tf.monitoring import level_metrics
from impala_tf.monitoring import metrics as metrics_lib
from impala_tf.monitoring import profiling
from impala_tf.monitoring import skipped_updates
from impala_tf.processes import learner_group
from impala_tf.processes import sizing
from impala_tf.processes import tf_threads
from impala_tf.processes import waiting
from impala_tf.storage import checkpoint as checkpoint_lib
from impala_tf.suites import levels as levels_lib
from impala_tf.transport import config_table
from impala_tf.transport import reverb_calls
from impala_tf.transport import unroll_filter


def make_environment(config: config_lib.Config, num_envs: int, seed: int,
                     training: bool, first_slot: int = 0
                     ) -> environment_lib.BatchedEnvironment:
  """The configured levels; see `envs.factory` and `envs.multi_level`."""
  return multi_level.make_environment(
      config.environment.level, num_envs, seed, first_slot,
      _make_level(config, training))


def _make_level(config: config_lib.Config,
                training: bool) -> multi_level.MakeFn:
  # Not a closure: `env_processes` hands it to processes.
  return functools.partial(
      factory.make_environment, config=config, training=training)


def make_agent(config: config_lib.Config,
               environment: environment_lib.BatchedEnvironment,
               precision: str = 'float32',
               compiled: bool = False) -> agent_lib.Agent:
  """An agent with fresh parameters, the same for the same seed."""
  tf.random.set_seed(config.experiment.seed)
  agent = agent_lib.Agent(
      distributions.of_actions(environment.action_spec()), config.agent,
      precision, compiled, _num_tasks(config))
  agent.build(environment.observation_spec())
  return agent


def _num_tasks(config: config_lib.Config) -> Optional[int]:
  """How many levels have values of their own; None: all have the same."""
  if config.impala.popart_step_size is None:
    return None
  return len(levels_lib.expand(config.environment.level))


def make_unroll_spec(config: config_lib.Config,
                     environment: environment_lib.BatchedEnvironment,
                     agent: agent_lib.Agent) -> types.Unroll:
  """What one unroll of this experiment looks like."""
  return types.unroll_spec(
      environment.observation_spec(), environment.frame_stack,
      environment.action_spec(), agent.distribution.num_logits,
      agent.initial_state(1), config.learner.unroll_length,
      environment.instruction_length)


def make_learner(config: config_lib.Config,
                 environment: environment_lib.BatchedEnvironment,
                 strategy: tf.distribute.Strategy) -> learner_lib.Learner:
  """A learner with fresh parameters.

  Raises:
    ConfigError: where a batch cannot be shared out evenly over the devices.
  """
  devices = strategy.extended.worker_devices
  if config.learner.batch_size % len(devices):
    raise config_lib.ConfigError(
        f'LearnerConfig.batch_size is {config.learner.batch_size}, which '
        f'{len(devices)} devices cannot share evenly; use a multiple of '
        f'{len(devices)}')
  on_cpu = 'CPU' in devices[0].upper()
  compile_step = {
      'auto': not on_cpu, 'on': True, 'off': False}[config.learner.xla]
  with strategy.scope():
    agent = make_agent(
        config, environment, config.learner.precision, compile_step)
  optimizer = config.optimizer
  algorithm = {'loss_fn': impala.loss}
  if agent.popart:
    algorithm = {'loss_fn': impala_popart.loss,
                 'after_step': impala_popart.after_step}
  return learner_lib.Learner(
      agent,
      make_optimizer=lambda learning_rate: optimizers.RMSProp(
          learning_rate, decay=optimizer.decay, epsilon=optimizer.epsilon,
          momentum=optimizer.momentum),
      strategy=strategy,
      learning_rate=optimizer.learning_rate,
      total_frames=config.experiment.total_frames,
      frames_per_step=environment.frames_per_step,
      max_gradient_norm=optimizer.max_gradient_norm,
      compile_step=compile_step,
      num_replayed=config.num_replayed,
      **{name: functools.partial(function, config=config.impala)
         for name, function in algorithm.items()})


def make_tables(config: config_lib.Config, spec: types.Unroll,
                queue_capacity: int) -> List[reverb.Table]:
  """The queue and, where unrolls are replayed, the replay.

  Raises:
    ConfigError: where the replay would not fit into memory.
  """
  tables = [replay.make_queue(spec, queue_capacity)]
  if config.num_replayed:
    tables.append(replay.make_replay(
        spec, config.replay.capacity_unrolls, sizing.memory_bytes()))
  return tables


def make_writer(config: config_lib.Config, address: str,
                spec: types.Unroll, task: int = 0) -> replay.UnrollWriter:
  """An actor's way into these tables."""
  tables = (replay.REPLAY,) if config.num_replayed else ()
  return replay.UnrollWriter(
      address, spec, tables + (replay.QUEUE,), sender=task,
      fingerprint=config_fingerprint.of_unrolls(config))


def make_dataset(config: config_lib.Config, address: str,
                 spec: types.Unroll, refuse: Callable[[int, str], None] =
                 lambda *unused: None) -> tf.data.Dataset:
  """Batches from these tables; see `dataset.make_dataset`."""
  return dataset_lib.make_dataset(
      address, spec, replay.QUEUE, config.num_fresh,
      replay.REPLAY, config.num_replayed, config_fingerprint.of_unrolls(config),
      # Between processes the order is that of chance already.
      refuse, in_order=config.experiment.in_process)


def make_actor(config: config_lib.Config, address: str, seed: int,
               task: int = 0, connect: Callable[[], None] = lambda: None,
               poll: waiting.PollFn = lambda cause: None,
               run_table: Optional[str] = None
               ) -> dynamic_batching_actor.AnyActor:
  """An actor that holds the learner's parameters; see `run_actor`."""
  env_seed, policy_seed = np.random.SeedSequence(
      [config.experiment.seed, seed]).generate_state(2) >> 2  # int32
  num_envs = config.actor.num_envs
  if config.actor.env_processes:
    actor_type = dynamic_batching_actor.DynamicActor
    environment = multi_level.make_workers(
        config.environment.level, int(env_seed), task * num_envs,
        _make_level(config, training=True), config.actor)
  else:
    actor_type = actor_lib.Actor
    environment = make_environment(
        config, num_envs, int(env_seed), training=True,
        first_slot=task * num_envs)
  agent = make_agent(config, environment)
  connect()
  fetcher = weights.Fetcher(address, agent.trainable_variables, run_table,
                            config.actor.fetch_interval_unrolls)
  fetcher.wait(poll)
  spec = make_unroll_spec(config, environment, agent)
  return actor_type(agent, environment,
                    make_writer(config, address, spec, task), fetcher, spec,
                    seed=int(policy_seed))


class LearnerRole(NamedTuple):
  """The parts that learning needs, however it is run."""
  run_dir: str
  learners: learner_group.Learners
  learner: learner_lib.Learner
  totals: training.Totals
  save: Callable[[int], None]
  server: reverb.Server
  address: str
  publisher: weights.Publisher
  reader: dataset_lib.BatchReader
  level_log: Optional[level_metrics.LevelLog]


def make_learner_role(config: config_lib.Config, run_dir: str,
                      port: Optional[int], capacity: int,
                      announced: config_lib.Config,
                      learners: learner_group.Learners) -> LearnerRole:
  """Makes the learner's parts and restores the newest checkpoint."""
  multi_level.check_levels(config, _make_level(config, training=True))
  environment = make_environment(config, 1, seed=0, training=True)
  learners.require_same(announced, config.learner.num_threads)
  strategy = learners.strategy
  learner = make_learner(config, environment, strategy)
  agent = learner.agent
  totals = training.Totals(len(levels_lib.expand(config.environment.level)))
  if learners.is_chief:
    checkpoint_lib.describe_agent(
        run_dir, agent.distribution, environment.observation_spec(),
        config.agent, _num_tasks(config))
  checkpointer = checkpoint_lib.Checkpointer(
      run_dir, config.experiment.checkpoints_to_keep, agent=agent,
      learner=learner, totals=totals)
  restored = checkpointer.restore(tidy=learners.is_chief)
  frames = int(learner.num_frames.numpy())
  if restored:
    logging.info('Resuming from %s at %d frames', restored, frames)
  own_dir = learners.own_directory(run_dir)
  metrics_lib.drop_rows_after(own_dir, frames)

  spec = make_unroll_spec(config, environment, agent)
  server, save = _make_server(
      config, run_dir, port, checkpointer,
      make_tables(config, spec, capacity) +
      [weights.make_table(agent.trainable_variables),
       config_table.make_table(announced)])
  address = f'localhost:{server.port}'
  config_table.publish(address, announced)
  publisher = weights.Publisher(address, agent.trainable_variables)
  version, parameters = int(learner.num_updates.numpy()), publisher.snapshot()
  learners.require_same_parameters(parameters, version)
  publisher.publish(version, parameters)
  refusals = unroll_filter.Refusals()
  reader = dataset_lib.BatchReader(
      make_dataset(config, address, spec, refusals.add),
      # Several devices share the batch out from the host.
      functools.partial(dataset_lib.place_observations, device='/cpu:0'
                        if len(strategy.extended.worker_devices) > 1
                        else strategy.extended.worker_devices[0]), refusals)
  environment.close()
  level_log = None
  if totals.level_frames is not None:
    level_log = level_metrics.LevelLog(
        levels_lib.expand(config.environment.level), totals.level_frames,
        config.learner.unroll_length * environment.frames_per_step)
  return LearnerRole(
      own_dir, learners, learners.wrap_learner(learner), totals,
      save if learners.is_chief else lambda number: None, server, address,
      publisher, learners.wrap_reader(reader), level_log)


def _make_server(config: config_lib.Config, run_dir: str, port: Optional[int],
                 checkpointer: checkpoint_lib.Checkpointer,
                 tables: Sequence[reverb.Table]):
  """The Reverb server, and how to write a checkpoint of the run."""
  if not (config.num_replayed and config.replay.survives_resume):
    return replay.make_server(tables, port), checkpointer.save
  server = replay.make_server(
      tables, port, checkpoint_lib.replay_directory(run_dir))
  client = reverb.Client(f'localhost:{server.port}')

  def save(number: int) -> None:
    # In this order: unrolls of the future would have a lag below 0.
    checkpointer.save(number)
    try:
      client.checkpoint()
    except RuntimeError as error:
      raise OSError(f'the replay could not be saved: {error}') from error

  return server, save


def train(config: config_lib.Config, role: LearnerRole,
          publish: Callable[[int], None], should_stop: training.StopFn,
          log_interval_secs: float, **kwargs) -> None:
  """Runs the loop over the role's parts; see `training.train`."""
  client = reverb.Client(role.address)
  skipped = skipped_updates.SkippedUpdates(
      role.run_dir, config.optimizer.max_skipped_updates)

  def gauges():
    # The tables that a server was made of are not its own if it restored any.
    infos = reverb_calls.server_info(client)
    names = [replay.QUEUE] + [replay.REPLAY] * bool(config.num_replayed)
    return {'unrolls_refused': role.reader.refusals.total,
            'updates_skipped': skipped.total, **{
                f'{name}_occupancy': infos[name].current_size /
                infos[name].max_size for name in names}}

  log = training.TrainingLog(
      role.run_dir, log_interval_secs, role.learner, role.totals, role.reader,
      config.num_fresh, gauges, role.level_log, role.learners.concatenate)
  training.train(config.experiment, role.learner, role.reader, publish,
                 role.save, log, skipped, should_stop, **kwargs)


def run_learner(config: config_lib.Config, run_dir: str, port: Optional[int],
                should_stop: training.StopFn, profile: bool = False,
                before_batch: Callable[[], None] = lambda: None,
                on_row: training.RowFn = lambda row: None,
                join: Callable[[], learner_group.Learners] = learner_group.alone
                ) -> bool:
  """The learner's process, with the Reverb server embedded.

  Args:
    config: of the run.
    run_dir: exists; checkpoints in it are resumed from.
    port: of the server; None for a free one.
    should_stop: is asked often; True ends the run with a checkpoint.
    profile: record a few updates for TensorBoard.
    before_batch: is called before each batch is read.
    on_row: is given each row of metrics.
    join: returns the learners that it is one of, see `learner_group.join`.

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
    role = make_learner_role(config, run_dir, port,
                             config.learner.queue_capacity, announced, learners)
    publisher = weights.BackgroundPublisher(role.publisher)
    profiler = (profiling.LearnerProfiler(role.run_dir) if profile
                else lambda: None)

    def produce():  # Actors do, elsewhere.
      before_batch()
      profiler()

    train(config, role, publisher.publish, should_stop,
          config.experiment.log_interval_secs, on_row=on_row, produce=produce)
    return role.learner.num_frames.numpy() >= config.experiment.total_frames


def run_actor(config: config_lib.Config, address: str, seed: int, task: int,
              connect: Callable[[], None] = lambda: None,
              poll: waiting.PollFn = lambda cause: None,
              on_unroll: Callable[[Mapping[str, float]], None] =
              lambda hop_secs: None) -> None:
  """An actor's process: plays until it is killed, having nothing to save.

  Args:
    config: of the run.
    address: 'host:port' of the learner's server.
    seed: differs between the actors of a run, and from that of an actor which
      has died.
    task: 0 to `ActorConfig.num_actors` - 1, which actor this is. It tells which
      of several levels are played.
    connect: is called once the environments are there, which takes time, and
      returns when the learner is.
    poll: is called while the learner has no parameters yet.
    on_unroll: is called after each batch of unrolls with what the time went to
      so far; see `actor.Actor.stopwatch`.

  Raises:
    ConnectionError: where the learner does not answer, or has another config.
  """
  run_table = config_table.table_name(config)
  config = sizing.fit(config)
  tf_threads.set_threads(1)
  actor = make_actor(config, address, seed, task, connect, poll, run_table)
  try:
    while True:
      actor.run_unroll()
      on_unroll(actor.stopwatch.secs)
  finally:
    actor.close()
