"""Environments of the levels that a config names."""

import functools
from typing import Union

from impala_tf import config as config_lib
from impala_tf.envs import environment
from impala_tf.envs import factory
from impala_tf.envs import multi_level
from impala_tf.suites import levels as levels_lib


def make_environment(config: Union[config_lib.Config, str], num_envs: int = 1,
                     seed: int = 0, training: bool = False, first_slot: int = 0
                     ) -> environment.BatchedEnvironment:
  """Makes a batch of environments of the configured levels.

  Args:
    config: config of a run; or the name of a level, such as 'atari/pong', for
      a config that has all other values by default.
    num_envs: E.
    seed: 0 or more; that of environment i is `seed` + i.
    training: whether lost lives end discounted returns, and levels that have
      held-out variants play those for training.
    first_slot: number of the first environment among all of a run, which
      decides which of several levels it plays; see `envs.multi_level`.

  Returns:
    Environments that are stepped as one batch; see `envs.environment`.

  Raises:
    ConfigError: if there is no such level, or it is not installed.
  """
  if isinstance(config, str):
    config = config_lib.Config(
        environment=config_lib.EnvironmentConfig(level=config))
  level, make = config.environment.level, make_level(config, training)
  levels = levels_lib.expand(level)
  if len(levels) == 1:
    return make(levels[0], num_envs, seed)
  return multi_level.MultiLevelEnvironment(
      levels_lib.short_name(level), levels, num_envs, seed, first_slot, make)


def make_level(config: config_lib.Config,
               training: bool) -> multi_level.MakeFn:
  """Returns a function that makes environments of one of the levels."""
  # Not a closure: `env_processes` hands it to processes.
  return functools.partial(
      factory.make_environment, config=config, training=training)
