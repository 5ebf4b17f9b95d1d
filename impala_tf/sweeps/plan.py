"""The plan of a sweep: its config, and the runs that follow from it.

A sweep trains every variant of an agent on every task with the same settings of
its hyper-parameters and the same seeds, so that variants are compared in pairs
(section 5.2 of the paper: "an identical set of 24 pre-sampled hyperparameter
combinations"). The config alone determines the runs, wherever they are started.
Standard library only.
"""

import dataclasses
import itertools
import math
import numbers
import random
import re
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Union

from impala_tf import config as config_lib

_SEED = 'ExperimentConfig.seed'


def _check_count(name: str, value: Any, at_least: int) -> None:
  if isinstance(value, bool) or not isinstance(value, int):
    raise config_lib.ConfigError(
        f'{name} must be of type int, but is {value!r}')
  if value < at_least:
    raise config_lib.ConfigError(
        f'{name} must be at least {at_least}, but is {value}')


def _check_names(name: str, value: Any) -> None:
  """Checks a dict whose keys become names of directories."""
  if not isinstance(value, dict):
    raise config_lib.ConfigError(f'{name} must be a dict, but is {value!r}')
  for key in value:
    if not isinstance(key, str) or not re.fullmatch(r'\w[\w.-]*', key):
      raise config_lib.ConfigError(
          f'{name} has the name {key!r}, which must be letters, digits, _, - '
          'and dots')


def _check_binding(name: str, binding: Any) -> None:
  if not isinstance(binding, str) or not re.fullmatch(r'\w+\.\w+', binding):
    raise config_lib.ConfigError(
        f"{name} must be of names like 'LearnerConfig.batch_size', but has "
        f'{binding!r}')
  if binding == _SEED:
    raise config_lib.ConfigError(
        f'{name} must not bind {_SEED}; set SweepConfig.num_seeds')


def _check_value(name: str, value: Any) -> None:
  if value is not None and not isinstance(value, (bool, int, float, str)):
    raise config_lib.ConfigError(
        f'{name} must be a number, a string, a bool or None, but is {value!r}')


def _check_bindings(name: str, value: Any) -> None:
  if not isinstance(value, dict):
    raise config_lib.ConfigError(
        f'{name} must be a dict of bindings, but is {value!r}')
  for binding, bound in value.items():
    _check_binding(name, binding)
    _check_value(f'{name}[{binding!r}]', bound)


def _check_range(name: str, value: Any) -> None:
  """Checks one entry of `SweepConfig.ranges`."""
  if not isinstance(value, (tuple, list)) or len(value) < 2 or (
      value[0] not in ('log_uniform', 'categorical')):
    raise config_lib.ConfigError(
        f"{name} must be ('log_uniform', low, high) or ('categorical', first, "
        f'second, …), but is {value!r}')
  kind, *limits = value
  if kind == 'categorical':
    for limit in limits:
      _check_value(name, limit)
    return
  if len(limits) != 2 or any(
      isinstance(limit, bool) or not isinstance(limit, numbers.Real)
      for limit in limits):
    raise config_lib.ConfigError(
        f'{name} must have two numbers, low and high, but is {value!r}')
  low, high = limits
  if not 0 < low < high < math.inf:
    raise config_lib.ConfigError(
        f'{name} must have 0 < low < high, but is {value!r}')


@dataclasses.dataclass(frozen=True)
class SweepConfig:
  """The config of a sweep.

  Bindings are dicts such as {'LearnerConfig.batch_size': 16}.

  Attributes:
    tasks: for each name of a task, the .gin file of a training run.
    variants: for each name of a variant, its bindings; all variants get the
      same settings and seeds.
    ranges: for each name that settings bind, ('log_uniform', low, high) or
      ('categorical', first, second, …), from which values are drawn.
    num_settings: number of settings that are drawn.
    points: for each name of a setting, its bindings, if settings are not drawn.
    fixed: bindings of all runs.
    num_seeds: number of seeds with which each setting is run.
    first_seed: the lowest of these seeds; the others follow it.
    seed: seed with which settings are drawn.
    shared_replay: whether the settings of a task, variant and seed are agents
      that run at the same time and share one replay (Schmitt et al. 2020); or
      the names of the variants in which they do. All runs have seeds of their
      own then.
  """
  tasks: dict = dataclasses.field(default_factory=dict)
  variants: dict = dataclasses.field(default_factory=lambda: {'default': {}})
  ranges: dict = dataclasses.field(default_factory=dict)
  num_settings: int = 1
  points: dict = dataclasses.field(default_factory=dict)
  fixed: dict = dataclasses.field(default_factory=dict)
  num_seeds: int = 1
  first_seed: int = 1
  seed: int = 1
  shared_replay: Union[bool, tuple] = False

  def __post_init__(self):
    """Raises ConfigError where no runs, or ambiguous ones, would follow."""
    _check_count('SweepConfig.num_settings', self.num_settings, 1)
    _check_count('SweepConfig.num_seeds', self.num_seeds, 1)
    _check_count('SweepConfig.first_seed', self.first_seed, 1)
    _check_count('SweepConfig.seed', self.seed, 0)
    for field in ('tasks', 'variants', 'points'):
      _check_names(f'SweepConfig.{field}', getattr(self, field))
    for field in ('tasks', 'variants'):
      if not getattr(self, field):
        raise config_lib.ConfigError(f'SweepConfig.{field} is empty; name one '
                                     'at least')
    for task, path in self.tasks.items():
      if not isinstance(path, str):
        raise config_lib.ConfigError(f'SweepConfig.tasks[{task!r}] must be the '
                                     f'path of a .gin file, but is {path!r}')
    _check_bindings('SweepConfig.fixed', self.fixed)
    for field in ('variants', 'points'):
      for name, bindings in getattr(self, field).items():
        _check_bindings(f'SweepConfig.{field}[{name!r}]', bindings)
    if not isinstance(self.ranges, dict):
      raise config_lib.ConfigError(
          f'SweepConfig.ranges must be a dict, but is {self.ranges!r}')
    for binding, limits in self.ranges.items():
      _check_binding('SweepConfig.ranges', binding)
      _check_range(f'SweepConfig.ranges[{binding!r}]', limits)
    self._check_settings()
    self._check_shared_replay()
    self._check_that_none_is_bound_twice()

  def _check_settings(self):
    if self.points and self.ranges:
      raise config_lib.ConfigError('SweepConfig has both points and ranges; '
                                   'settings are either given or drawn')
    if self.num_settings > 1 and not self.ranges:
      raise config_lib.ConfigError(
          f'SweepConfig.num_settings is {self.num_settings}, but there are no '
          'ranges to draw from')

  def _check_shared_replay(self):
    if isinstance(self.shared_replay, bool):
      return
    if not isinstance(self.shared_replay, (tuple, list)):
      raise config_lib.ConfigError(
          'SweepConfig.shared_replay must be True, False or names of variants, '
          f'but is {self.shared_replay!r}')
    for name in self.shared_replay:
      if name not in self.variants:
        raise config_lib.ConfigError(
            f'SweepConfig.shared_replay names {name!r}, which is no variant; '
            f'variants are {", ".join(self.variants)}')

  @property
  def sharing_variants(self) -> List[str]:
    """Names of the variants whose settings share a replay."""
    if isinstance(self.shared_replay, bool):
      return list(self.variants) if self.shared_replay else []
    return list(self.shared_replay)

  def _check_that_none_is_bound_twice(self):
    def names(dicts):
      return set(itertools.chain(*dicts.values()))

    groups = {'fixed': set(self.fixed), 'variants': names(self.variants),
              'points': names(self.points), 'ranges': set(self.ranges)}
    for field, other in itertools.combinations(groups, 2):
      for name in sorted(groups[field] & groups[other]):
        raise config_lib.ConfigError(
            f'{name} is bound in SweepConfig.{field} and in '
            f'SweepConfig.{other}; bind it in one of them')


class Setting(NamedTuple):
  """One combination of hyper-parameters."""
  name: str
  bindings: Mapping[str, Any]


class Run(NamedTuple):
  """One training run of a sweep.

  Attributes:
    task: name of the task.
    variant: name of the variant.
    setting: name of the setting.
    seed: seed of the run.
    bindings: all bindings of the run, its seed included.
  """
  task: str
  variant: str
  setting: str
  seed: int
  bindings: Mapping[str, Any]

  @property
  def name(self) -> str:
    """The run's directory below that of all runs, unique in the sweep."""
    return f'{self.task}/{self.variant}/{self.setting}/seed_{self.seed}'

  def arguments(self, task_path: str, run_dir: str) -> List[str]:
    """Returns the arguments after `python -m` that start the run."""
    return ['impala_tf', 'train', task_path, f'--run_dir={run_dir}',
            *(f'--gin_binding={line}' for line in self.gin_bindings())]

  def gin_bindings(self) -> List[str]:
    """Returns bindings as lines of gin: 'LearnerConfig.batch_size = 16'."""
    return [f'{name} = {value!r}' for name, value in self.bindings.items()]


def _draw(limits: Sequence[Any], position: float) -> Any:
  """Returns a range's value at `position` in [0, 1)."""
  kind, *limits = limits
  if kind == 'categorical':
    return limits[int(position * len(limits))]
  low, high = map(float, limits)
  value = low * (high / low)**position
  # Four digits are the same on every machine, the last bits may not be.
  return min(max(float(f'{value:.4g}'), low), high)


def settings(config: SweepConfig) -> List[Setting]:
  """Draws the settings, or returns the ones that are given.

  The same seed draws the same settings; a larger `num_settings` adds some at
  the end. Python promises that `random.Random.random` never changes. NumPy does
  not promise that of its generators.
  """
  if config.points:
    return [Setting(name, bindings) for name, bindings in config.points.items()]
  generator = random.Random(config.seed)
  return [Setting(f'setting_{number:02d}',
                  {name: _draw(config.ranges[name], generator.random())
                   for name in sorted(config.ranges)})
          for number in range(1, config.num_settings + 1)]


def corners(config: SweepConfig) -> List[Setting]:
  """Makes a few settings that contain each limit and each choice.

  If no range check refuses these, none will refuse a drawn setting.
  """
  if not config.ranges:
    return settings(config)
  limits = {name: values[1:] for name, values in config.ranges.items()}
  return [Setting(f'corner_{i}', {name: values[i % len(values)]
                                  for name, values in limits.items()})
          for i in range(max(map(len, limits.values())))]


def runs(config: SweepConfig, chosen: Optional[Sequence[Setting]] = None
         ) -> List[Run]:
  """Lists all runs, with those first that are compared with each other.

  So the results of an unfinished sweep can be compared, too. Where a replay is
  shared, the runs that share it follow one another.

  Args:
    config: config of the sweep.
    chosen: settings to run; None for the config's.
  """
  if chosen is None:
    chosen = settings(config)
  seeds = range(config.first_seed, config.first_seed + config.num_seeds)
  if config.sharing_variants:
    return [
        Run(task, variant, setting.name, seed, {
            **config.fixed, **setting.bindings, **config.variants[variant],
            # Agents with the same weights and games would be less than many.
            _SEED: (seed - 1) * len(chosen) + i})
        for seed in seeds
        for task in config.tasks for variant in config.variants
        for i, setting in enumerate(chosen, 1)]
  return [
      Run(task, variant, setting.name, seed, {
          **config.fixed, **setting.bindings, **config.variants[variant],
          _SEED: seed})
      for setting in chosen for seed in seeds
      for task in config.tasks for variant in config.variants]


class Member(Run):
  """One run of a population: like a sweep's, in a directory beside the others.

  A task, a variant and a seed have a population each; its members have the
  settings.
  """

  @property
  def name(self) -> str:
    """The run's directory below that of all runs, beside its population's."""
    return f'{self.task}/{self.variant}/seed_{self.seed}/{self.setting}'

  @property
  def population(self) -> str:
    """Name of the member's population, which is unique in the file."""
    return f'{self.task}/{self.variant}/seed_{self.seed}'


def members(config: SweepConfig, chosen: Optional[Sequence[Setting]] = None
            ) -> List[Member]:
  """Lists the members of all populations of a config.

  They are the runs of the sweep of the same config, with the same settings and
  seeds, so that a population and a sweep can be compared in pairs. Learning
  rates are not annealed unless the config says so: the population finds their
  schedule.

  Args:
    config: config of the populations.
    chosen: settings to begin with; None for the config's.

  Raises:
    ConfigError: where there is one setting only.
  """
  if chosen is None:
    chosen = settings(config)
  if len(chosen) < 2:
    raise config_lib.ConfigError(
        'a population has a member for each setting, but this file has one; '
        'set SweepConfig.ranges and num_settings, or points')
  names = ','.join(setting.name for setting in chosen)
  return [Member(*run[:4], {
      'OptimizerConfig.annealed': False, **run.bindings,
      'PopulationConfig.members': names}) for run in runs(config, chosen)]


class Group(NamedTuple):
  """Runs that share a replay, in the order of their numbers as agents."""
  task: str
  variant: str
  seed: int
  runs: Sequence[Run]

  @property
  def name(self) -> str:
    """The name of their replay, unique in the sweep."""
    return f'{self.task}/{self.variant}/replay_of_seed_{self.seed}'


def groups(config: SweepConfig, all_runs: Sequence[Run]) -> List[Group]:
  """Lists the groups of runs that share a replay; none where none is shared.

  Args:
    config: config of the sweep or of the populations.
    all_runs: its runs or members.
  """
  found = {}
  for run in all_runs:
    if run.variant in config.sharing_variants:
      found.setdefault((run.task, run.variant, run.seed), []).append(run)
  return [Group(*key, sharing) for key, sharing in found.items()]


def differences(old: SweepConfig, new: SweepConfig) -> List[str]:
  """Lists the values that differ, as in 'SweepConfig.num_seeds (1, now 2)'."""
  found = []
  for field in dataclasses.fields(SweepConfig):
    name = f'SweepConfig.{field.name}'
    old_value, new_value = getattr(old, field.name), getattr(new, field.name)
    if not isinstance(old_value, dict):
      if old_value != new_value:
        found.append(f'{name} ({old_value!r}, now {new_value!r})')
      continue
    for key in {**old_value, **new_value}:
      shown, now_shown = _shown(old_value, key), _shown(new_value, key)
      if shown != now_shown:
        found.append(f'{name}[{key!r}] ({shown}, now {now_shown})')
  return found


def _shown(values: dict, key: str) -> str:
  return repr(values[key]) if key in values else 'nothing'
