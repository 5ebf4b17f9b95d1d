"""The table of all domains, and environments made from names of levels."""

import difflib
import re
import sys

from impala_tf import config as config_lib
from impala_tf.envs import atari
from impala_tf.envs import cartpole_swingup
from impala_tf.envs import catch
from impala_tf.envs import control
from impala_tf.envs import dm_environment
from impala_tf.envs import dmlab
from impala_tf.envs import domain as domain_lib
from impala_tf.envs import environment
from impala_tf.envs import gym
from impala_tf.envs import minigrid
from impala_tf.envs import tmaze
from impala_tf.envs import vizdoom
from impala_tf.runtime import user_modules
from impala_tf.suites import levels as levels_lib

# Keys are the beginnings of levels' names, up to the first slash.
DOMAINS: dict[str, domain_lib.Domain] = {
    'atari': atari.DOMAIN,
    'catch': catch.DOMAIN,
    'cartpole_swingup': cartpole_swingup.DOMAIN,
    'tmaze': tmaze.DOMAIN,
    'minigrid': minigrid.MINIGRID,
    'babyai': minigrid.BABYAI,
    'dmlab30': dmlab.DMLAB30,
    'dmlab': dmlab.DMLAB,
    'vizdoom': vizdoom.DOMAIN,
    'control': control.DOMAIN,
    'gym': gym.DOMAIN,
    'dm_env': dm_environment.DOMAIN,
}


def register(name: str, domain: domain_lib.Domain) -> None:
  """Adds a user's domain to the table, for simulators without Gymnasium.

  Its forms begin with `name`, up to the first slash. Raises ConfigError if that
  is taken.
  """
  if name in DOMAINS:
    raise config_lib.ConfigError(
        f'there is a domain {name!r} already; choose another name')
  DOMAINS[name] = domain
  user_modules.note_registration('EnvironmentConfig.level', name)


def domain_of(level: str) -> domain_lib.Domain | None:
  """Returns the domain of a level's prefix, or None for an unknown prefix."""
  return DOMAINS.get(level.partition('/')[0])


def _of_other_library(level: str) -> str | None:
  """Translates another library's name of a level; returns None for other names.

  Ids that Gymnasium may know stay: the user's own may be anything.
  """
  if ':' in level:
    return None
  name = level.removeprefix('gym/')
  gymnasium = sys.modules.get('gymnasium')
  is_own = (user_modules.sources() and gymnasium and name in gymnasium.registry)
  if not is_own and re.search(r'^ALE/|(NoFrameskip|Deterministic)-v\d+$', name):
    games = atari.near_games(name.rpartition('/')[2])
    return f'atari/{games[0]}' if games else None
  if level != name or domain_of(level) is not None:
    return None
  for prefix in 'MiniGrid', 'BabyAI':
    if level.startswith(f'{prefix}-'):
      return level.replace(f'{prefix}-', f'{prefix.lower()}/', 1)
  if re.fullmatch(r'(\w+/)?[\w-]+-v\d+', level):
    games = atari.near_games(level)
    is_game = len(games) == 1 and re.search('-v[045]$', level)
    return f'atari/{games[0]}' if is_game else f'gym/{level}'
  return None


def _nearest(level: str) -> str | None:
  if level.rstrip('/') in DOMAINS:
    return None  # Only the rest of the name is missing.
  known = [*levels_lib.SUITES,
           *(form for row in DOMAINS.values() for form in row.forms
             if '<' not in form),
           *(f'atari/{game}' for game in atari.games()),
           *(name for suite in levels_lib.SUITES.values()
             for name in suite.train_levels)]
  spellings = {spelling: name for name in known
               for spelling in (name, name.rpartition('/')[2])}
  near = difflib.get_close_matches(level.lower(), spellings, n=1, cutoff=0.7)
  return spellings[near[0]] if near else None


def known_domain(level: str) -> domain_lib.Domain:
  """Returns the domain of a level; raises ConfigError for a wrong name."""
  domain = domain_of(level)
  if domain is not None and not domain.has_form_of(level):
    domain = None
  meant = _of_other_library(level) or (
      _nearest(level) if domain is None else None)
  if meant is not None:
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: there is no level {level!r} here; did you '
        f'mean {meant!r}?')
  if domain is None:
    *forms, last = [f"'{form}'" for row in DOMAINS.values()
                    for form in row.forms]
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level must be {", ".join(forms)} or {last}, but is '
        f'{level!r}')
  return domain


def check_level(level: str) -> None:
  """Raises ConfigError for a level that `make_environment` could not make.

  No simulator is imported. Unknown ids of Gymnasium, MiniGrid, BabyAI and
  dm_control are found only when they are made.
  """
  known_domain(level).check(level.partition('/')[2])


def check_levels(config: config_lib.Config) -> None:
  """Raises ConfigError if a configured level is unusable with the options."""
  for level in levels_lib.expand(config.environment.level):
    _check_options(level, config)
    if config.actor.env_processes and known_domain(level).steps_batches:
      raise config_lib.ConfigError(
          'ActorConfig.env_processes is for environments that are stepped one '
          f'by one, but the emulator of {level} steps a batch as a whole; '
          'leave it out')


def _check_options(level: str, config: config_lib.Config) -> None:
  check_level(level)
  domain = known_domain(level)
  for name, value, trait, problem, hint in (
      ('EnvironmentConfig.kwargs', config.environment.kwargs, 'takes_kwargs',
       'takes no arguments; leave it out',
       '; other settings are in AtariConfig, DmlabConfig and VizdoomConfig'),
      ('EnvironmentConfig.episode_metrics', config.environment.episode_metrics,
       'has_info', "has no info to find them in; set it to ''", ''),
      ('AgentConfig.instruction_length', config.agent.instruction_length,
       'has_instructions', 'gives no instructions; set it to 0', '')):
    if value and not getattr(domain, trait):
      others = sorted(
          other for other, row in DOMAINS.items() if getattr(row, trait))
      raise config_lib.ConfigError(
          f'{name} is {value!r}, but {level} {problem} (those that do are of '
          f'{", ".join(others)}{hint})')


def make_environment(level: str, num_envs: int, seed: int,
                     config: config_lib.Config, training: bool
                     ) -> environment.BatchedEnvironment:
  """Makes a batch of E environments of `level`; ignores the config's level.

  For `seed` see `Domain.make`. Without `training` full games are scored: lost
  lives end nothing, all cores are used, and DeepMind Lab plays held-out levels.

  Raises ConfigError if the level is unknown, its simulator is not installed, or
  it lacks what the config asks for.
  """
  _check_options(level, config)
  env = known_domain(level).make(
      level.partition('/')[2], num_envs, seed, config, training)
  if not config.environment.converted:
    env.disable_conversions()
  if env.action_box is not None and not env.action_box.is_bounded.all():
    env.remarks.append(
        'some actions lack a bound and are not scaled: the agent begins at '
        'about -1 to 1; a wrapper can scale them')
  env.reward_scale = config.environment.reward_scale
  return env
