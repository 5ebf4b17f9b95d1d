"""Functions that make a run's parts from its config."""

import functools
import random

import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.core import learner as learner_lib
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
make_probe_environment = multi_level.make_probe


def make_seeds(*entropy: int) -> tuple[int, int]:
  """Makes seeds for environments and for the policy's sampling.

  `entropy` is whole numbers from 0 on. Seeds are below 2**30, which leaves room
  for the indices of environments, and for TensorFlow's int32.
  """
  environment_seed, policy_seed = (
      np.random.SeedSequence(entropy).generate_state(2) >> 2)
  return int(environment_seed), int(policy_seed)


def make_actor_environment(config: config_lib.Config, seed: int,
                           task: int) -> AnyEnvironment:
  """Makes the environments of actor number `task`, which decides its levels.

  The config has a number for `ActorConfig.num_envs`; the seed of environment i
  is `seed` + i.
  """
  num_envs = sizing.fitted(config.actor.num_envs)
  first_slot = task * num_envs
  if config.actor.env_processes:
    return multi_level.make_workers(
        config.environment.level, seed, first_slot,
        multi_level.make_level(config, training=True), config.actor)
  return make_environment(config, num_envs, seed, training=True,
                          first_slot=first_slot)


def make_agent(config: config_lib.Config, environment: AnyEnvironment,
               precision: str = 'float32',
               compiled: bool = False) -> agent_lib.Agent:
  """Makes an agent with fresh parameters, the same for the same seed."""
  tf.random.set_seed(config.experiment.seed)
  state = random.getstate()
  random.seed(config.experiment.seed)  # Keras draws from it.
  agent = algorithms.get(config).make_agent(
      config, distributions.of_actions(environment.action_spec()), precision,
      compiled)
  side_channels = environment.side_channel_specs()
  features = side_channels.features
  agent.build(environment.observation_spec(),
              num_features=features.shape[0] if features else 0,
              has_action_mask=bool(side_channels.action_mask))
  random.setstate(state)  # Environments may draw from it, too.
  return agent


def make_unroll_spec(config: config_lib.Config, environment: AnyEnvironment,
                     agent: agent_lib.Agent) -> types.Unroll:
  """Returns the shapes and dtypes of one unroll; see `types.unroll_spec`."""
  return types.unroll_spec(
      environment.observation_spec(), environment.frame_stack,
      environment.action_spec(), agent.distribution.num_logits,
      agent.initial_state(1), config.learner.unroll_length,
      environment.side_channel_specs()._asdict())


def make_learner(config: config_lib.Config,
                 environment: environment_lib.BatchedEnvironment,
                 strategy: tf.distribute.Strategy) -> learner_lib.Learner:
  """Makes a new learner; ConfigError if devices cannot share a batch evenly."""
  devices = strategy.extended.worker_devices
  if config.learner.batch_size % len(devices):
    raise config_lib.ConfigError(
        f'LearnerConfig.batch_size is {config.learner.batch_size}, which '
        f'{len(devices)} devices cannot share evenly; use a multiple of '
        f'{len(devices)}')
  compile_step = {'auto': 'CPU' not in devices[0].upper(), 'on': True,
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
      learner_lib.Objective(
          lambda agent, unroll: algorithm.loss(
              agent, unroll, config=config,
              hyperparameters=hyperparameters.present()),
          functools.partial(algorithm.after_step, config=config)),
      lambda learning_rate: rmsprop.RMSProp(
          learning_rate, optimizer.decay, lambda: hyperparameters.epsilon,
          optimizer.momentum, optimizer.bias_correction),
      hyperparameters, strategy,
      learner_lib.Settings(
          config.experiment.total_frames, optimizer.annealed,
          optimizer.annealed_share, environment.frames_per_step, compile_step,
          unroll_metrics=(priorities.METRIC,) if config.has_priorities else (),
          num_replayed=config.num_replayed,
          learns_from_fresh=config.replay.replay_fraction < 1))
