"""Environments of the configured levels, of one or of several in a batch.

Section 5.3 of Espeholt et al. 2018 allocates a fixed number of actors to each
task. Here environment g of a run plays level g mod L, so that levels'
environments differ by one at most.
"""

import functools
from typing import Any, Callable, Sequence

import dm_env
from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import env_processes
from impala_tf.envs import environment
from impala_tf.envs import factory
from impala_tf.runtime import sizing
from impala_tf.suites import levels as levels_lib

AnyEnvironment = environment.BatchedEnvironment | env_processes.Workers
# Makes a batch of environments from level, number and seed.
MakeFn = Callable[[str, int, int], environment.BatchedEnvironment]


def make_environment(config: config_lib.Config | str, num_envs: int = 1,
                     seed: int = 0, training: bool = False, first_slot: int = 0
                     ) -> environment.BatchedEnvironment:
  """Makes a batch of E environments of the configured levels.

  For `config` and `seed` see `make_for_policies`. In `training` lost lives end
  discounted returns, and levels with held-out variants play those for training.
  `first_slot` is the number of the first environment in the run, which its
  constructor can read, and which decides the level (`slots`).

  Raises ConfigError if there is no such level, or it is not installed.
  """
  config = _as_config(config)
  level, make = config.environment.level, make_level(config, training)
  levels = levels_lib.expand(level)
  with environment.numbered(range(first_slot, first_slot + num_envs)):
    if len(levels) == 1:
      return make(levels[0], num_envs, seed)
    return MultiLevelEnvironment(
        levels_lib.short_name(level), levels, num_envs, seed, first_slot, make)


def _as_config(config: config_lib.Config | str) -> config_lib.Config:
  if not isinstance(config, str):
    return config
  return config_lib.Config(
      environment=config_lib.EnvironmentConfig(level=config))


def make_for_policies(config: config_lib.Config | str, num_envs: int = 1,
                      seed: int = 0, training: bool = False
                      ) -> environment.BatchedEnvironment:
  """Makes a batch of E environments for policies of `load_policy`.

  `config` may be a level's name, such as 'atari/pong'. Seeds count from `seed`,
  level by level. Without `training` full games are played, of held-out levels
  if there are some. Continuous actions are in the simulator's units, as
  policies give them; pictures are as they are, since policies scale them. Both
  hold for several levels if these are alike; else actions are from -1 to 1.

  Raises ConfigError if there is no such level, or it is not installed.
  """
  config = _as_config(config)
  names: Sequence[str] = environment.CONVERSIONS
  if len(levels_lib.expand(config.environment.level)) > 1:
    probe = make_probe(config, make_level(config, training)).interface
    names = [name for name, value in probe.items()
             if value and value[0] is not None]
  env = make_environment(config, num_envs, seed, training)
  env.disable_conversions(names)
  return env


def make_level(config: config_lib.Config, training: bool) -> MakeFn:
  """Returns a function that makes a batch from a level, a number and a seed."""
  # Not a closure: `env_processes` hands it to processes.
  return functools.partial(
      factory.make_environment, config=config, training=training)


def slots(num_levels: int, first_slot: int, num_envs: int
          ) -> list[tuple[int, slice]]:
  """Divides the E environments of a process among the L levels.

  `first_slot` is the number of the first in the run. Returns the index and the
  rows of each level that the process plays.
  """
  # Neighbours play different levels. Since unrolls are sent in the order of
  # rows, each batch of the learner is then of many levels.
  return [((first_slot + row) % num_levels, slice(row, num_envs, num_levels))
          for row in range(min(num_levels, num_envs))]


def check_alike(level: environment.BatchedEnvironment,
                other: environment.BatchedEnvironment) -> None:
  """Raises ConfigError if one agent could not play both levels."""
  others = _describe(other)
  domain = factory.domain_of(level.level)
  for what, value in _describe(level).items():
    if value != others[what]:
      remedy = 'leave one of them out'
      if not what and domain and domain is factory.domain_of(other.level):
        remedy = domain.action_remedy
      raise config_lib.ConfigError(
          f'{other.level} has {what}{others[what]} and {level.level} {value}, '
          f'but levels that are learned together must have the same; {remedy}')


def _describe(env: environment.BatchedEnvironment) -> dict[str, Any]:
  """Describes a level's spaces by name, '' for actions; all must be equal."""
  spec, observations = env.action_spec(), env.observation_spec()
  box = env.action_box
  if isinstance(spec, specs.DiscreteArray):
    actions = f'{spec.num_values} actions'
  elif np.issubdtype(spec.dtype, np.integer):
    actions = f'choices of {environment.num_choices(spec).tolist()} actions'
  elif box is not None and box.scaled:
    actions = f'continuous actions with two bounds {box.is_bounded.tolist()}'
  else:
    actions = (f'continuous actions within {spec.minimum.tolist()} and '
               f'{spec.maximum.tolist()}')
  side_channels = [f'{name} {list(channel.shape)}' for name, channel in
                   env.side_channel_specs()._asdict().items() if channel != ()]
  return {'': actions,
          'observations ': (observations.dtype.name, observations.shape),
          'side channels ': ' and '.join(side_channels) or 'none',
          'frames a step ': env.frames_per_step,
          'stacked frames ': env.frame_stack}


def make_probe(config: config_lib.Config, make: MakeFn | None = None
               ) -> environment.BatchedEnvironment:
  """Makes, closes and returns an environment of the first level, for its specs.

  All other levels of a run are made once, one after another, unless all must be
  alike. `remarks` are then of all, with their names, and `interface` has what
  they have in common. `make` is by default that of the config.

  Raises ConfigError if one agent could not play all levels.
  """
  make = make or make_level(config, training=True)
  first, *others = levels_lib.expand(config.environment.level)
  domains = {factory.domain_of(level) for level in (first, *others)}
  # Starting all levels takes up to a minute.
  if len(domains) == 1 and factory.known_domain(first).is_uniform(config):
    others = []
  probe = make(first, 1, 0)
  probe.close()  # Only then another: there may be one licence for all.
  levels_of = {remark: [first] for remark in probe.remarks}
  for level in others:
    other = make(level, 1, 0)
    other.close()
    check_alike(probe, other)
    probe.keep_common_interface(other)
    for remark in other.remarks:
      levels_of.setdefault(remark, []).append(level)
  probe.remarks = [f'{", ".join(levels)}: {remark}'
                   for remark, levels in levels_of.items()]
  return probe


def make_workers(level: str, seed: int, first_slot: int, make: MakeFn,
                 config: config_lib.ActorConfig) -> env_processes.Workers:
  """Makes a process's environments, of one level or more, in worker processes.

  `level` is `EnvironmentConfig.level`. Environment i has the seed `seed + i`;
  `make` can be pickled; see `slots` for `first_slot`. Raises the errors of
  `env_processes.Workers`.
  """
  levels = levels_lib.expand(level)
  num_envs = sizing.fitted(config.num_envs)
  numbers = range(first_slot, first_slot + num_envs)
  assert config.env_processes is not None, 'without, there are no workers'
  with environment.numbered(numbers):
    return env_processes.Workers(
        functools.partial(_make_one, levels, seed, numbers, make),
        num_envs, config.env_processes, config.env_timeout_secs,
        [levels[number % len(levels)] for number in numbers])


def _make_one(levels: Sequence[str], seed: int, numbers: range, make: MakeFn,
              row: int) -> environment.BatchedEnvironment:
  """Makes environment `row` of the process as a batch of one."""
  index = numbers[row] % len(levels)
  with environment.numbered(numbers[row:row + 1]):
    env = make(levels[index], 1, seed + row)
  env.level_index[:] = index
  return env


class MultiLevelEnvironment(environment.BatchedEnvironment):
  """E environments of several levels, stepped level by level.

  All levels must have the same actions and observations; see `check_alike`.
  """

  def __init__(self, name: str, levels: Sequence[str], num_envs: int, seed: int,
               first_slot: int, make: MakeFn):
    """Makes the environments; raises ConfigError if the levels' spaces differ.

    `levels` are all L of the run; `name` is for messages. Environments have
    the E seeds from `seed` on. See `slots` for `first_slot`.
    """
    self._groups: list[tuple[slice, environment.BatchedEnvironment]] = []
    level_index = np.zeros(num_envs, np.int32)
    for index, rows in slots(len(levels), first_slot, num_envs):
      level_index[rows] = index
      numbers = range(first_slot, first_slot + num_envs)[rows]
      with environment.numbered(numbers):
        group = make(levels[index], len(numbers), seed)
      self._groups.append((rows, group))
      seed += len(numbers)
      check_alike(self._groups[0][1], group)
    first = self._groups[0][1]
    spec, side_channels = first.observation_spec(), first.side_channel_specs()
    features = side_channels.features
    super().__init__(
        name, num_envs, first.action_spec(), spec,
        first.frames_per_step, first.frame_stack, first.instruction_length,
        num_features=features.shape[0] if features else 0,
        has_action_mask=bool(side_channels.action_mask),
        episode_metric_names=first.episode_metric_names)
    self.reward_scale = first.reward_scale
    # Each level fits its actions, and `make_probe` finds what all share.
    self.action_box = None
    self.interface = {}
    self.level_index = level_index
    self._timestep = self._first(np.zeros((num_envs, *spec.shape), spec.dtype))

  def reset(self) -> dm_env.TimeStep:
    for rows, group in self._groups:
      self._store_rows(rows, group, group.reset())
    return self._timestep

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    for rows, group in self._groups:
      self._store_rows(
          rows, group, group.step(np.ascontiguousarray(actions[rows])))
    return self._timestep

  def _store_rows(self, rows: slice, group: environment.BatchedEnvironment,
                  timestep: dm_env.TimeStep):
    environment.put_rows((self._timestep, self.side_channels), rows,
                         (timestep, group.side_channels))
    self.num_instructions_cut = sum(
        group.num_instructions_cut for _, group in self._groups)

  def disable_conversions(
      self, names: Sequence[str] = environment.CONVERSIONS) -> None:
    for _, group in self._groups:
      group.disable_conversions(names)

  def render(self) -> np.ndarray:
    return self._groups[0][1].render()

  def close(self) -> None:
    for _, group in self._groups:
      group.close()
