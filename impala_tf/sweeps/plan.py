"""The plan of a sweep: its config, and the runs that follow from it.

A sweep trains every variant of an agent on every task. All have the same
settings of hyper-parameters and the same seeds, so they compare in pairs. These
are "an identical set of 24 pre-sampled hyperparameter combinations" (section
5.2). The config alone determines the runs, on any machine.
"""

import dataclasses
import itertools
import math
import random
import re
from typing import Any, Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib

_SEED = 'ExperimentConfig.seed'

Settings = Mapping[str, Mapping[str, Any]]  # Bindings by the setting's name.


def _require(holds: bool, problem: str) -> None:
  if not holds:
    raise config_lib.ConfigError(problem)


def _check_dict(name: str, value: Any) -> None:
  _require(isinstance(value, dict), f'{name} must be a dict, but is {value!r}')


def _check_bindings(name: str, value: Any) -> None:
  """Checks names of bindings; their values are checked with each run."""
  _check_dict(name, value)
  for option in value:
    _require(
        isinstance(option, str) and bool(re.fullmatch(r'\w+\.\w+', option)),
        f"{name} must be of names like 'LearnerConfig.batch_size', but has "
        f'{option!r}')
  _require(_SEED not in value,
           f'{name} must not bind {_SEED}; set SweepConfig.num_seeds')


def _check_range(name: str, value: Any) -> None:
  parts: Any = value if isinstance(value, (tuple, list)) and value else ['']
  kind, *limits = parts
  if kind == 'log_uniform':
    holds = len(limits) == 2 and all(
        isinstance(limit, (int, float)) and not isinstance(limit, bool)
        for limit in limits) and 0 < limits[0] < limits[1] < math.inf
  else:
    holds = kind == 'categorical' and bool(limits)
  _require(holds, f"{name} must be ('log_uniform', low, high) with 0 < low < "
           f"high, or ('categorical', first, second, …), but is {value!r}")


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
      names of variants in which they do. Then each run has its own seed.
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
  shared_replay: bool | tuple = False

  def __post_init__(self):
    for field, at_least in (('num_settings', 1), ('num_seeds', 1),
                            ('first_seed', 1), ('seed', 0)):
      count = getattr(self, field)
      _require(isinstance(count, int) and not isinstance(count, bool)
               and count >= at_least, f'SweepConfig.{field} must be a whole '
               f'number and at least {at_least}, but is {count!r}')
    for field in ('tasks', 'variants', 'points'):
      _check_dict(f'SweepConfig.{field}', getattr(self, field))
      for name in getattr(self, field):  # Becomes the name of a directory.
        _require(
            isinstance(name, str) and bool(re.fullmatch(r'\w[\w.-]*', name)),
            f'SweepConfig.{field} has the name {name!r}, which must be '
            'letters, digits, _, - and dots')
      _require(field == 'points' or bool(getattr(self, field)),
               f'SweepConfig.{field} is empty; name one at least')
    for task, path in self.tasks.items():
      _require(isinstance(path, str), f'SweepConfig.tasks[{task!r}] must be '
               f'the path of a .gin file, but is {path!r}')
    for field in ('fixed', 'ranges'):
      _check_bindings(f'SweepConfig.{field}', getattr(self, field))
    for field in ('variants', 'points'):
      for name, bindings in getattr(self, field).items():
        _check_bindings(f'SweepConfig.{field}[{name!r}]', bindings)
    for binding, limits in self.ranges.items():
      _check_range(f'SweepConfig.ranges[{binding!r}]', limits)
    _require(not (self.points and self.ranges),
             'SweepConfig has both points and ranges; settings are either '
             'given or drawn')
    _require(self.num_settings == 1 or bool(self.ranges),
             f'SweepConfig.num_settings is {self.num_settings}, but there are '
             'no ranges to draw from')
    _require(isinstance(self.shared_replay, (bool, tuple, list)),
             'SweepConfig.shared_replay must be True, False or names of '
             f'variants, but is {self.shared_replay!r}')
    for name in self.sharing_variants:
      _require(name in self.variants,
               f'SweepConfig.shared_replay names {name!r}, which is no '
               f'variant; variants are {", ".join(self.variants)}')
    self._check_that_none_is_bound_twice()

  @property
  def sharing_variants(self) -> list[str]:
    """Names of the variants whose settings share a replay."""
    if isinstance(self.shared_replay, bool):
      return list(self.variants) if self.shared_replay else []
    return list(self.shared_replay)

  def _check_that_none_is_bound_twice(self):
    names = {'fixed': set(self.fixed),
             'variants': set(itertools.chain(*self.variants.values())),
             'points': set(itertools.chain(*self.points.values())),
             'ranges': set(self.ranges)}
    for field, other in itertools.combinations(names, 2):
      for name in sorted(names[field] & names[other]):
        raise config_lib.ConfigError(
            f'{name} is bound in SweepConfig.{field} and in '
            f'SweepConfig.{other}; bind it in one of them')


class Run(NamedTuple):
  """A training run of a sweep: its task, variant, setting, seed, bindings."""
  task: str
  variant: str
  setting: str
  seed: int
  bindings: Mapping[str, Any]  # All of the run, its seed included.

  @property
  def name(self) -> str:
    """Path of the run's directory below `runs/`, unique in the sweep."""
    return f'{self.task}/{self.variant}/{self.setting}/seed_{self.seed}'

  def gin_bindings(self) -> list[str]:
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


def settings(config: SweepConfig) -> Settings:
  """Draws the settings, or returns the config's points.

  The same seed draws the same settings: Python promises that
  `random.Random.random` never changes, unlike NumPy of its generators.
  """
  if config.points:
    return config.points
  generator = random.Random(config.seed)
  return {f'setting_{number:02d}':
          {name: _draw(config.ranges[name], generator.random())
           for name in sorted(config.ranges)}
          for number in range(1, config.num_settings + 1)}


def runs(config: SweepConfig) -> list[Run]:
  """Lists all runs, with runs to be compared next to each other.

  So the results of an unfinished sweep can be compared, too. Runs that share a
  replay follow one another.
  """
  chosen, share = settings(config), bool(config.sharing_variants)
  seeds = range(config.first_seed, config.first_seed + config.num_seeds)
  places = list(itertools.product(seeds, config.tasks, config.variants))
  pairs = (itertools.product(places, chosen) if share else
           ((place, name) for name in chosen for place in places))
  agents = {name: i for i, name in enumerate(chosen, start=1)}
  return [
      Run(task, variant, name, seed, {
          **config.fixed, **chosen[name], **config.variants[variant],
          # Agents with the same weights and games would be less than many.
          _SEED: (seed - 1) * len(chosen) + agents[name] if share else seed})
      for (seed, task, variant), name in pairs]


class Member(Run):
  """A member of a population: a run in a directory beside the other members'.

  Each task, variant and seed has a population, with a member for each setting.
  """

  @property
  def name(self) -> str:
    """Path of the member's directory below `runs/`, within its population's."""
    return f'{self.population}/{self.setting}'

  @property
  def population(self) -> str:
    """Name of the member's population, unique in the config."""
    return f'{self.task}/{self.variant}/seed_{self.seed}'


def members(config: SweepConfig) -> list[Member]:
  """Lists the members of all populations of a config.

  They have the settings and seeds of the sweep of the same config, so that a
  population and a sweep can be compared in pairs. Learning rates are not
  annealed unless this config says so: the population finds their schedule.
  Raises ConfigError if there is only one setting.
  """
  names = list(settings(config))
  _require(len(names) > 1,
           'a population has a member for each setting, but this file has one; '
           'set SweepConfig.ranges and num_settings, or points')
  _require(not any(name.endswith('.failed') for name in names),
           "no name of SweepConfig.points may end with '.failed' here")
  return [Member(*run[:4], {
      'OptimizerConfig.annealed': False, **run.bindings,
      'PopulationConfig.members': ','.join(names)}) for run in runs(config)]


class Group(NamedTuple):
  """Runs that share a replay, in the order of their agent numbers."""
  task: str
  variant: str
  seed: int
  runs: Sequence[Run]

  @property
  def name(self) -> str:
    """Name of the runs' replay, unique in the sweep."""
    return f'{self.task}/{self.variant}/replay_of_seed_{self.seed}'


def groups(config: SweepConfig, all_runs: Sequence[Run]) -> list[Group]:
  """Groups the runs or members that share a replay."""
  found: dict[tuple[str, str, int], list[Run]] = {}
  for run in all_runs:
    if run.variant in config.sharing_variants:
      found.setdefault((run.task, run.variant, run.seed), []).append(run)
  return [Group(*key, sharing) for key, sharing in found.items()]


def differences(old: SweepConfig, new: SweepConfig) -> list[str]:
  """Lists changed values, as in 'SweepConfig.num_seeds (1, now 2)'."""
  was, now = _texts(old), _texts(new)
  return [f'{name} ({was.get(name, "nothing")}, now {now.get(name, "nothing")})'
          for name in {**was, **now} if was.get(name) != now.get(name)]


def _texts(config: SweepConfig) -> dict[str, str]:
  """Returns all values, also those within dicts, as text by their names."""
  texts = {}
  for field, value in vars(config).items():
    if isinstance(value, dict):
      texts.update({f'SweepConfig.{field}[{key!r}]': repr(bound)
                    for key, bound in value.items()})
    else:
      texts[f'SweepConfig.{field}'] = repr(value)
  return texts
