"""The wiring, which makes parts from the config."""

import functools
from typing import Any, Callable, Iterable, List, Optional, Tuple

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.comms import unroll_filter
from impala_tf.config import fingerprint as fingerprint_lib
from impala_tf.core import actor as actor_lib
from impala_tf.core import batches as dataset_lib
from impala_tf.core import dynamic_batching_actor
from impala_tf.core import learner as learner_lib
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.envs import environment as environment_lib
from impala_tf.envs import multi_level
from impala_tf.maths import distributions
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.optimizers import rmsprop
from impala_tf.replay import priorities
from impala_tf.runtime import precision as precision_lib
from impala_tf.runtime import sizing

AnyEnvironment = multi_level.AnyEnvironment
make_environment = multi_level.make_environment


def make_seeds(*entropy: int) -> Tuple[int, int]:
  """Makes seeds for environments and for the policy's sampling.

  Other `entropy`, whole numbers from 0 on, gives other seeds. They are below
  2**30: an environment's seed plus its index, and TensorFlow's int32, have
  room.
  """
  environment_seed, policy_seed = (
      np.random.SeedSequence(entropy).generate_state(2) >> 2)
  return int(environment_seed), int(policy_seed)


def make_probe_environment(config: config_lib.Config
                           ) -> environment_lib.BatchedEnvironment:
  """Makes a single environment, so that a learner can read its specs.

  Raises:
    ConfigError: one agent could not play all levels.
  """
  multi_level.check_levels(
      config, multi_level.make_level(config, training=True))
  return make_environment(config, 1, seed=0, training=True)


def make_actor_environment(config: config_lib.Config, seed: int,
                           task: int) -> AnyEnvironment:
  """Makes the environments of one actor.

  Args:
    config: config of the run, with a number for `ActorConfig.num_envs`.
    seed: 0 or more; that of environment i is `seed` + i.
    task: number of the actor, which decides its levels.
  """
  first_slot = task * config.actor.num_envs
  if config.actor.env_processes:
    return multi_level.make_workers(
        config.environment.level, seed, first_slot,
        multi_level.make_level(config, training=True), config.actor)
  return make_environment(config, config.actor.num_envs, seed, training=True,
                          first_slot=first_slot)


def make_agent(config: config_lib.Config, environment: AnyEnvironment,
               precision: str = 'float32',
               compiled: bool = False) -> agent_lib.Agent:
  """Makes an agent with fresh parameters, the same for the same seed."""
  tf.random.set_seed(config.experiment.seed)
  agent = algorithms.get(config).make_agent(
      config, distributions.of_actions(environment.action_spec()), precision,
      compiled)
  side_channels = environment.side_channel_specs()
  features = side_channels.features
  agent.build(environment.observation_spec(),
              num_features=features.shape[0] if features else 0,
              has_action_mask=bool(side_channels.action_mask))
  return agent


def make_unroll_spec(config: config_lib.Config, environment: AnyEnvironment,
                     agent: agent_lib.Agent) -> types.Unroll:
  """Describes one unroll of this experiment."""
  return types.unroll_spec(
      environment.observation_spec(), environment.frame_stack,
      environment.action_spec(), agent.distribution.num_logits,
      agent.initial_state(1), config.learner.unroll_length,
      environment.side_channel_specs()._asdict())


def make_learner(config: config_lib.Config, environment: AnyEnvironment,
                 strategy: tf.distribute.Strategy) -> learner_lib.Learner:
  """Makes a learner with fresh parameters.

  Raises:
    ConfigError: the devices cannot share a batch evenly.
  """
  devices = strategy.extended.worker_devices
  _check_batch_size(config, len(devices))
  compile_step = {'auto': not precision_lib.is_cpu(devices[0]), 'on': True,
                  'off': False}[config.learner.xla]
  with strategy.scope():
    agent = make_agent(
        config, environment, precision_lib.of_learner(config, devices[0]),
        compile_step)
    hyperparameters = hyperparameters_lib.Hyperparameters(config)
  algorithm = algorithms.get(config)
  optimizer = config.optimizer
  return learner_lib.Learner(
      agent,
      functools.partial(algorithm.loss, config=config,
                        hyperparameters=hyperparameters),
      lambda learning_rate: rmsprop.RMSProp(
          learning_rate, optimizer.decay, lambda: hyperparameters.epsilon,
          optimizer.momentum, optimizer.bias_correction),
      hyperparameters, strategy,
      total_frames=config.experiment.total_frames,
      frames_per_step=environment.frames_per_step,
      compile_step=compile_step,
      annealed=optimizer.annealed,
      num_replayed=config.num_replayed,
      learns_from_fresh=config.replay.replay_fraction < 1,
      unroll_metrics=(priorities.METRIC,) if config.has_priorities else (),
      after_step=functools.partial(algorithm.after_step, config=config))


def _check_batch_size(config: config_lib.Config, num_devices: int) -> None:
  """Raises ConfigError if devices would get shares of different sizes."""
  if config.learner.batch_size % num_devices:
    raise config_lib.ConfigError(
        f'LearnerConfig.batch_size is {config.learner.batch_size}, which '
        f'{num_devices} devices cannot share evenly; use a multiple of '
        f'{num_devices}')


def make_tables(config: config_lib.Config, spec: types.Unroll,
                queue_capacity: int,
                has_replay: bool = True) -> List[reverb.Table]:
  """Makes the queue and, if unrolls are replayed, the replay.

  Args:
    queue_capacity: unrolls that wait before actors block.
    has_replay: False if the replay has a server of its own.

  Raises:
    ConfigError: the replay would not fit into memory.
  """
  tables = [queue_lib.make_queue(spec, queue_capacity)]
  if config.num_replayed and has_replay:
    tables.append(make_replay(config, spec))
  return tables


def make_replay(config: config_lib.Config, spec: types.Unroll) -> reverb.Table:
  """Makes the replay; raises ConfigError if it would not fit into memory."""
  exponent = config.replay.priority_exponent if config.has_priorities else 0.
  return queue_lib.make_replay(
      spec, config.replay.capacity_unrolls, sizing.memory_bytes(), exponent,
      config.chain_unrolls)


def make_writer(config: config_lib.Config, address: str, spec: types.Unroll,
                task: int = 0, replay_address: Optional[str] = None,
                agent: int = 0) -> queue_lib.UnrollWriter:
  """Makes the writer of an actor's unrolls; see `queue.UnrollWriter`.

  Args:
    address: 'host:port' of the queue's server.
    task: number of the actor that writes.
    replay_address: 'host:port' of the replay's server; None: the queue's.
    agent: number of the agent among those that share the replay.
  """
  tables = (queue_lib.QUEUE,)
  if config.num_replayed:
    tables = (queue_lib.REPLAY, queue_lib.QUEUE)  # The queue may block.
  return queue_lib.UnrollWriter(
      address, spec, tables, task, fingerprint_lib.of_unrolls(config),
      replay_address, config.chain_unrolls, config.actor.num_envs, agent)


def make_dataset(config: config_lib.Config, address: str, spec: types.Unroll,
                 refusals: Optional[unroll_filter.Refusals] = None,
                 replay_address: Optional[str] = None,
                 recompute: Optional[Callable[[types.Unroll], Any]] = None,
                 agent: int = 0, first_version: Optional[int] = None
                 ) -> Iterable[types.Unroll]:
  """Makes the batches that a learner reads; see `batches.make_dataset`.

  Args:
    address: 'host:port' of the queue's server.
    refusals: log of fresh unrolls that are left out.
    replay_address: 'host:port' of the replay's server; None: the queue's.
    recompute: see `batches.make_dataset`.
    agent: number of the agent among those that share the replay.
    first_version: see `batches.make_dataset`.
  """
  replay_source = None
  if config.num_replayed:
    replay_source = dataset_lib.Source(
        replay_address or address, queue_lib.REPLAY, config.num_replayed,
        config.chain_unrolls is not None,
        config.replay.priority_correction if config.has_priorities else None,
        None if replay_address is None else agent)
  return dataset_lib.make_dataset(
      dataset_lib.Source(address, queue_lib.QUEUE, config.num_fresh), spec,
      replay_source, fingerprint_lib.of_unrolls(config), refusals,
      # Between processes the order is that of chance already. Where actors
      # wait for the update, one sampler reads as fast as they play.
      in_order=config.experiment.in_process or first_version is not None,
      recompute=recompute, first_version=first_version)


def make_actor(config: config_lib.Config, agent: agent_lib.Agent,
               environment: AnyEnvironment, writer: queue_lib.UnrollWriter,
               fetcher: weights.Fetcher, spec: types.Unroll, seed: int
               ) -> dynamic_batching_actor.AnyActor:
  """Makes the configured kind of actor; `seed` is for sampling its actions."""
  is_synchronous = config.actor.synchronisation != 'none'
  parts = agent, environment, writer, fetcher, spec, seed
  if not config.actor.env_processes:
    return actor_lib.Actor(*parts, acts_anew=is_synchronous)
  if is_synchronous:
    return dynamic_batching_actor.SynchronousDynamicActor(*parts)
  return dynamic_batching_actor.DynamicActor(*parts)
