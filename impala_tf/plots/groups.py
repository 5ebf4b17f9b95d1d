"""Groups of runs that are drawn as one curve, and their names in legends."""

import difflib
import functools
import os
from typing import Any, Callable, Sequence

from impala_tf import config as config_lib
from impala_tf.plots import runs as runs_lib
from impala_tf.runs import gin_config
from impala_tf.runs import hparams
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from impala_tf.storage import files
from impala_tf.suites import levels as levels_lib

_MAX_NAMED = 3  # Options in a name; with more, parts of paths are shorter.
SEED = 'ExperimentConfig.seed'
LEVEL = 'EnvironmentConfig.level'
_ALGORITHM = 'ExperimentConfig.algorithm'
WAYS = ('seed', 'directory', 'all')  # Beside every option.

# By the name in the legend, directories of runs or files of rows.
Groups = dict[str, list[str]]


def check_way(way: str) -> None:
  """Raises UserError for an unknown way of grouping."""
  ways = [*WAYS, *hparams.values(config_lib.Config())]
  if way in ways:
    return
  near = difflib.get_close_matches(way, ways, n=1, cutoff=0.4)
  hint = f'; did you mean {near[0]}?' if near else ''
  raise config_lib.UserError(
      f'--group_by must be {", ".join(WAYS)} or an option such as '
      f'ImpalaConfig.entropy_cost, but is {way!r}{hint}')


def make(run_dirs: Sequence[str], way: str | None) -> Groups:
  """Groups runs by `way`: sorted by an option's values, or in given order.

  For `way` see docs/plots.md; None leaves each alone. Raises UserError if a
  config is needed and missing.
  """
  if way and len({label.endswith(', evaluated')
                  for label in runs_lib.labels(run_dirs)}) > 1:
    raise config_lib.UserError(
        'runs are not grouped with evaluations; name only one kind')
  if way == 'all':
    return {'all': list(run_dirs)}
  if way in (None, 'directory'):
    found = _gather(run_dirs, str if way is None else (
        lambda run_dir: os.path.dirname(os.path.abspath(_run_of(run_dir)))))
    return dict(zip(runs_lib.labels(list(found)), found.values()))
  values = {run_dir: values_of(run_dir) for run_dir in run_dirs}
  for run_dir in run_dirs:
    if not values[run_dir]:
      raise config_lib.UserError(
          f'{run_dir} has no config.gin, which says how to group; leave out '
          '--group_by, or group by directory or all')
  if way == 'seed':
    return alike(run_dirs, (SEED,))
  found = _gather(run_dirs, lambda run_dir: values[run_dir][way])
  return {_named(way, value): found[value]
          for value in sorted(found, key=_order)}


def alike(run_dirs: Sequence[str], ignored: Sequence[str]) -> Groups:
  """Groups runs whose configs are equal in all options except `ignored`."""
  values = {run_dir: values_of(run_dir) for run_dir in run_dirs}
  found = _gather(run_dirs, lambda run_dir: tuple(
      value for option, value in values[run_dir].items()
      if option not in ignored))
  firsts = [values[members[0]] for members in found.values()]
  varied = [option for option, value in firsts[0].items()
            if option not in ignored and any(
                other[option] != value for other in firsts)]
  names = [', '.join(_named(option, first[option]) for option in varied)
           for first in firsts]
  if len(firsts) == 1:
    names = [firsts[0][_ALGORITHM] if LEVEL in ignored else
             levels_lib.short_name(firsts[0][LEVEL])]
  elif len(varied) > _MAX_NAMED:
    names = runs_lib.labels([members[0] for members in found.values()])
  return dict(zip(names, found.values()))


def _gather(run_dirs: Sequence[str], key: Callable[[str], Any]
            ) -> dict[Any, list[str]]:
  found: dict[Any, list[str]] = {}
  for run_dir in run_dirs:
    found.setdefault(key(run_dir), []).append(run_dir)
  return found


def _order(value: Any) -> tuple:
  """Returns a key that sorts numbers by size, before None and text."""
  is_number = isinstance(value, (int, float))
  return (not is_number, value if is_number else str(value))


@functools.cache
def values_of(run_dir: str) -> dict[str, Any]:
  """Reads the value of each option of a run; empty without a config."""
  path = gin_config.config_path(_run_of(run_dir))
  return hparams.values(gin_config.load(path)) if files.exists(path) else {}


def _run_of(path: str) -> str:
  """Returns the directory of a run, given that or a path of its rows."""
  for name in (metrics.FILE_NAME, run_directory.EVALUATION):
    head, tail = os.path.split(path.rstrip('/'))
    path = head if tail == name else path
  return path


def _named(option: str, value: Any) -> str:
  """Returns a legend's 'option = value', or only the value if it is text."""
  if isinstance(value, str):
    return value
  return f'{option.partition(".")[2].rstrip("_")} = {value}'
