"""Groups of runs that are drawn as one curve, and their names in legends."""

import difflib
import os
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.monitoring import hparams
from impala_tf.storage import files
from impala_tf.suites import levels as levels_lib
from launch.report import labels
from launch.run import gin_config
from launch.run import program

_MAX_NAMED = 3  # Knobs in a name; with more, parts of paths are shorter.
_SEED = 'ExperimentConfig.seed'
_LEVEL = 'EnvironmentConfig.level'
WAYS = ('seed', 'directory', 'all')  # Beside every knob.


class Group(NamedTuple):
  """Runs that are drawn as one curve.

  Attributes:
    label: name in the legend.
    run_dirs: directories of the runs, or files of rows.
  """
  label: str
  run_dirs: List[str]


def knobs() -> List[str]:
  """Lists the names of all knobs, such as 'ImpalaConfig.entropy_cost'."""
  return list(hparams.values(config_lib.Config()))


def check_way(way: str) -> None:
  """Raises UserError for a way of grouping that there is not."""
  if way in WAYS or way in knobs():
    return
  near = difflib.get_close_matches(way, [*WAYS, *knobs()], n=1, cutoff=0.4)
  hint = f'; did you mean {near[0]}?' if near else ''
  raise config_lib.UserError(
      f'--group_by must be {", ".join(WAYS)} or a knob such as '
      f'ImpalaConfig.entropy_cost, but is {way!r}{hint}')


def singles(run_dirs: Sequence[str]) -> List[Group]:
  """Makes a group of each run."""
  return [Group(label, [run_dir])
          for label, run_dir in zip(labels.of_runs(run_dirs), run_dirs)]


def make(run_dirs: Sequence[str], way: str) -> List[Group]:
  """Groups runs.

  Args:
    run_dirs: different directories of runs.
    way: 'seed' puts runs together whose configs differ in the seed alone,
      'directory' those that lie in one directory, 'all' puts all together, and
      the name of a knob those with the same value of it.

  Returns:
    The groups: in the order of the values of a knob, otherwise in that in which
    their first runs were given.

  Raises:
    UserError: where a run's config is needed and it has none.
  """
  if way == 'all':
    return [Group('all', list(run_dirs))]
  if way == 'directory':
    found = _gather(run_dirs, lambda run_dir: os.path.dirname(
        os.path.abspath(run_dir)))
    return [Group(label, members) for label, members in zip(
        labels.of_runs(list(found)), found.values())]
  values = {run_dir: values_of(run_dir) for run_dir in run_dirs}
  if way == 'seed':
    found = _gather(run_dirs, lambda run_dir: tuple(
        value for knob, value in values[run_dir].items() if knob != _SEED))
    return [Group(label, members) for label, members in zip(
        _names([members[0] for members in found.values()], values),
        found.values())]
  found = _gather(run_dirs, lambda run_dir: values[run_dir][way])
  return [Group(_named(way, value), found[value])
          for value in sorted(found, key=_order)]


def _gather(run_dirs: Sequence[str], key: Callable[[str], Any]
            ) -> Dict[Any, List[str]]:
  found: Dict[Any, List[str]] = {}
  for run_dir in run_dirs:
    found.setdefault(key(run_dir), []).append(run_dir)
  return found


def _order(value: Any) -> tuple:
  """Sorts numbers by size, before None and text."""
  is_number = isinstance(value, (int, float))
  return (not is_number, value if is_number else str(value))


def values_of(run_dir: str) -> Dict[str, Any]:
  """Reads the value of each knob; raises UserError where there is no config."""
  path = gin_config.config_path(_of_run(run_dir))
  if not files.exists(path):
    raise config_lib.UserError(
        f'there is no {path}, which says how to group; leave out --group_by, '
        'or group by directory or all')
  return hparams.values(gin_config.load(path))


def level_of(run_dir: str) -> str:
  """Returns the level of a run; empty where its config is not there."""
  path = gin_config.config_path(_of_run(run_dir))
  return gin_config.load(path).environment.level if files.exists(path) else ''


def _of_run(run_dir: str) -> str:
  """Returns the run's directory where that of its evaluation is given."""
  head, tail = os.path.split(run_dir.rstrip('/'))
  return head if tail == program.EVALUATION else run_dir


def _names(run_dirs: Sequence[str], values: Dict[str, Dict[str, Any]]
           ) -> List[str]:
  """Names groups by the values that differ between them."""
  first = values[run_dirs[0]]
  varied = [knob for knob in first if knob != _SEED and any(
      values[run_dir][knob] != first[knob] for run_dir in run_dirs)]
  if len(run_dirs) == 1:
    return [levels_lib.short_name(first[_LEVEL])]
  if len(varied) > _MAX_NAMED:
    return labels.of_runs(run_dirs)
  return [', '.join(_named(knob, values[run_dir][knob]) for knob in varied)
          for run_dir in run_dirs]


def _named(knob: str, value: Any) -> str:
  """Returns a knob and its value for a legend; text speaks for itself."""
  if isinstance(value, str):
    return levels_lib.short_name(value) if knob == _LEVEL else value
  return f'{knob.partition(".")[2].rstrip("_")} = {value}'
