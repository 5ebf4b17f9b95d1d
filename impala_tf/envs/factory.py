"""From a level's name to its environment."""

import dataclasses

from impala_tf import config as config_lib
from impala_tf.envs import atari
from impala_tf.envs import cartpole_swingup
from impala_tf.envs import catch
from impala_tf.envs import control
from impala_tf.envs import dmlab
from impala_tf.envs import environment
from impala_tf.envs import gym
from impala_tf.envs import minigrid
from impala_tf.envs import tmaze
from impala_tf.envs import vizdoom
from impala_tf.processes import sizing
from impala_tf.suites import levels as levels_lib

_FORMS = ("'atari/<game>', 'catch', 'catch/delayed', 'catch/mirrored', "
          "'cartpole_swingup', 'tmaze/<length>', 'minigrid/<id>', "
          "'babyai/<id>', 'dmlab30/<name>', 'vizdoom/<scenario>', "
          "'control/<domain>/<task>' or 'gym/<id>'")
_DOMAINS = ('atari', 'babyai', 'control', 'dmlab30', 'gym', 'minigrid', 'tmaze',
            'vizdoom')
_WITH_INSTRUCTIONS = ('babyai', 'dmlab30', 'minigrid')


def check_level(level: str) -> None:
  """Refuses a level that `make_environment` could not make.

  Cheap enough for a launcher: no simulator is imported. Atari games are looked
  up among the files of the installed ale-py; an id of Gymnasium, MiniGrid,
  BabyAI or dm_control is known only once it is made.

  Raises:
    ConfigError: for an unknown domain, game or task, a length out of range, a
      module that is not trusted, or where the simulator of Atari, MiniGrid,
      dm_control, DeepMind Lab or VizDoom is missing.
  """
  if level in ('catch', 'catch/delayed', 'catch/mirrored', 'cartpole_swingup'):
    return
  domain, _, name = level.partition('/')
  if domain not in _DOMAINS or not name:
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level must be {_FORMS}, but is {level!r}')
  if domain == 'atari':
    atari.check_game(name)
  elif domain == 'control':
    control.check_installed()
  elif domain == 'dmlab30':
    dmlab.check_name(name)
  elif domain in ('minigrid', 'babyai'):
    minigrid.check_installed()
    gym.check_module(level)
  elif domain == 'gym':
    gym.check_module(level)
  elif domain == 'tmaze':
    tmaze.corridor_length(name)
  elif domain == 'vizdoom':
    vizdoom.check_name(name)


def check_levels(level: str, instruction_length: int) -> None:
  """`check_level` and `check_instructions` of all that a config names."""
  for one in levels_lib.expand(level):
    check_level(one)
    check_instructions(one, instruction_length)


def check_instructions(level: str, instruction_length: int) -> None:
  """Raises ConfigError where the level has none to read."""
  if instruction_length and level.partition('/')[0] not in _WITH_INSTRUCTIONS:
    raise config_lib.ConfigError(
        f'AgentConfig.instruction_length is {instruction_length}, but {level} '
        f'gives no instructions; set it to 0 (those that do are of '
        f'{", ".join(_WITH_INSTRUCTIONS)})')


def make_environment(level: str, num_envs: int, seed: int,
                     atari_config: config_lib.AtariConfig,
                     dmlab_config: config_lib.DmlabConfig,
                     vizdoom_config: config_lib.VizdoomConfig, training: bool,
                     instruction_length: int = 0
                     ) -> environment.BatchedEnvironment:
  """Makes a batch of environments.

  Args:
    level: one, as `EnvironmentConfig.level` describes it.
    num_envs: E.
    seed: 0 or more. Environment i takes `seed + i`, so two actors' seeds should
      be at least E apart.
    atari_config: how Atari is played; of no effect elsewhere.
    dmlab_config: the same of DeepMind Lab.
    vizdoom_config: the same of VizDoom.
    training: False where full games are scored: a lost life ends nothing then,
      and all cores are used, since nothing else runs; DeepMind Lab's levels are
      those that are held out.
    instruction_length: words of an instruction that are handed over, at most; 0
      for none.

  Raises:
    ConfigError: where the level is unknown, its simulator is not installed, or
      it has no instructions though they are wanted.
  """
  check_level(level)
  check_instructions(level, instruction_length)
  domain, _, name = level.partition('/')
  if level == 'catch':
    return catch.CatchEnvironment(num_envs, seed)
  if level == 'catch/delayed':
    return catch.CatchEnvironment(
        num_envs, seed, catch.BALLS_OF_DELAYED, level)
  if level == 'catch/mirrored':
    return catch.CatchEnvironment(num_envs, seed, level=level, mirrored=True)
  if level == 'cartpole_swingup':
    return cartpole_swingup.CartPoleSwingUpEnvironment(num_envs, seed)
  if domain == 'tmaze':
    return tmaze.TMazeEnvironment(
        tmaze.corridor_length(name), num_envs, seed)
  if domain in ('minigrid', 'babyai'):
    return minigrid.MinigridEnvironment(
        name, num_envs, seed, domain, instruction_length)
  if domain == 'control':
    return control.ControlEnvironment(name, num_envs, seed)
  if domain == 'dmlab30':
    return dmlab.DmlabEnvironment(
        name, num_envs, seed, dmlab_config, training, instruction_length)
  if domain == 'vizdoom':
    return vizdoom.VizdoomEnvironment(name, num_envs, seed, vizdoom_config)
  if domain == 'gym':
    return gym.GymEnvironment(name, num_envs, seed)
  if training:
    return atari.AtariEnvironment(name, num_envs, seed, atari_config)
  return atari.AtariEnvironment(
      name, num_envs, seed,
      dataclasses.replace(atari_config, life_loss_ends_episode=False),
      num_threads=sizing.num_cores())
