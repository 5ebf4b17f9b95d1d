"""A sweep's directory: its config, its runs, and the table of results.

- sweep.gin: the sweep's config, all values spelt out
- tasks/TASK.gin: each task's config when the sweep began
- runs/TASK/VARIANT/SETTING/seed_N/: a training run each
- replays/TASK/VARIANT/: shared replays that survive
- logs/TASK/VARIANT/SETTING/seed_N.log
- results.csv: a line for each run that has ended

A directory of populations has population.gin, and TASK/VARIANT/seed_N/SETTING:
the members of a population lie side by side; best.json names the best one.
"""

import contextlib
import dataclasses
import os
import pathlib
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from impala_tf.runtime import user_modules
from impala_tf.storage import files
from impala_tf.storage import shipped
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib

RESULTS = 'results.csv'
BEST = 'best.json'


class Kind(NamedTuple):
  """A kind of sweep, with its names in messages and files."""
  name: str  # Word for one.
  runs: str  # Word for its runs.
  configs: str  # Directory of shipped ones, below configs/.
  list_runs: Callable[[plan_lib.SweepConfig], list[Any]]

  @property
  def flag(self) -> str:
    return f'--{self.name}_dir'

  @property
  def config_name(self) -> str:
    return f'{self.name}.gin'

  def is_in(self, path: str) -> bool:
    """Returns whether a directory holds a sweep of this kind."""
    return os.path.exists(os.path.join(path, self.config_name))


SWEEP = Kind('sweep', 'runs', shipped.SWEEPS, plan_lib.runs)
POPULATION = Kind('population', 'members', shipped.POPULATIONS,
                  plan_lib.members)


def read_results(path: str) -> list[results_lib.Result]:
  """Reads the results in a directory; none before its first run has ended."""
  table = pathlib.Path(path, RESULTS)
  if not table.exists():
    return []
  try:
    # Spreadsheets begin UTF-8 with a byte order mark.
    return results_lib.from_csv(table.read_text(encoding='utf-8-sig'))
  except ValueError as error:
    raise config_lib.UserError(f'{table}: {error}; correct it') from error


class SweepDirectory:
  """The directory of a sweep that this process has locked."""

  def __init__(self, path: str, config: plan_lib.SweepConfig, lock: int,
               kind: Kind = SWEEP):
    """Reads the results that the directory holds already."""
    self._path = pathlib.Path(path)
    self.runs = kind.list_runs(config)
    self._results = {_key(result.run): result for result in read_results(path)}
    self.lock = lock  # Who has this file open holds the directory.
    self.log_dir = str(self._path / 'logs')

  def arguments(self, run: plan_lib.Run) -> list[str]:
    """Returns the arguments of `python -m` that start or resume a run.

    They work on any machine and in any directory.
    """
    return ['impala_tf', 'train', self.task_path(run),
            f'--run_dir={os.path.abspath(self.run_dir(run))}',
            *(f'--gin_binding={line}' for line in run.gin_bindings()),
            *user_modules.flags()]

  def task_path(self, run: plan_lib.Run) -> str:
    """Returns the absolute path of the .gin file of a run's task."""
    return os.path.abspath(self._path / 'tasks' / f'{run.task}.gin')

  def replay_dir(self, group: plan_lib.Group) -> str:
    return os.path.abspath(self._path / 'replays' / group.name)

  def run_dir(self, run: plan_lib.Run) -> str:
    return str(self._path / 'runs' / run.name)

  def runs_to_do(self, retry_failed: bool) -> list[Any]:
    """Lists unfinished runs, with failed ones only if `retry_failed`."""
    done = {_key(result.run) for result in self.results() if
            result.status == results_lib.FINISHED or (
                result.status == results_lib.FAILED and not retry_failed)}
    return [run for run in self.runs if _key(run) not in done]

  def results(self) -> list[results_lib.Result]:
    """Returns the results so far, in the order of the sweep's runs."""
    return [self._results[_key(run)] for run in self.runs
            if _key(run) in self._results]

  def record(self, run: plan_lib.Run, status: str,
             error: str) -> results_lib.Result:
    """Records the result of a run that has ended in the table of results."""
    result = results_lib.result(
        run, status, error, metrics.read_rows(self.run_dir(run)))
    self._results[_key(run)] = result
    files.write(str(self._path / RESULTS),
                results_lib.to_csv(self.results()).encode())
    return result


def _key(run: plan_lib.Run) -> tuple:
  return run.task, run.variant, run.setting, run.seed


def _check(path: pathlib.Path, config: plan_lib.SweepConfig,
           tasks: Mapping[str, config_lib.Config], kind: Kind) -> None:
  run_directory.check_writable(path, kind.flag)
  # One that was killed before it had its config leaves only these.
  leftovers = (run_directory.LOCK, files.new_path(kind.config_name))
  if kind.is_in(str(path)):
    was = gin_config.load_sweep(str(path / kind.config_name))
    # Files of tasks may have been moved; their values are compared below.
    was = dataclasses.replace(was, tasks={
        name: config.tasks.get(name, old) for name, old in was.tasks.items()})
    changed = plan_lib.differences(was, config)
    before, now = ({run.name: run.bindings for run in kind.list_runs(each)}
                   for each in (was, config))
    if not changed and before != now:  # Members are numbered.
      changed = ['order of SweepConfig.points']
    for name, task in tasks.items():
      task_path = path / 'tasks' / f'{name}.gin'
      if task_path.exists():
        changed.extend(
            f'{name}: {difference}' for difference in gin_config.differences(
                gin_config.load(str(task_path)), task))
    if changed:
      raise config_lib.UserError(
          f'{path} holds another {kind.name}: {", ".join(changed)}; give the '
          f'same to resume it, or another {kind.flag}')
  elif path.exists() and any(p.name not in leftovers for p in path.iterdir()):
    raise config_lib.UserError(
        f'{path} is not empty and holds no {kind.name}; choose another '
        f'{kind.flag}')


@contextlib.contextmanager
def claim(path: str, config: plan_lib.SweepConfig,
          tasks: Mapping[str, config_lib.Config], kind: Kind = SWEEP
          ) -> Iterator[SweepDirectory]:
  """Makes or resumes a sweep's directory, locked against other processes.

  `tasks` has each task's config without the sweep's bindings. For errors see
  `run_directory.claim`.
  """
  directory = pathlib.Path(path)
  _check(directory, config, tasks, kind)
  directory.mkdir(parents=True, exist_ok=True)
  with run_directory.locking(
      path, f'a {kind.name} is running in {path}, or runs of one that was '
      f'killed are still ending; wait for it, or choose another {kind.flag}'
  ) as lock:
    if not kind.is_in(path):
      files.write(str(directory / kind.config_name),
                  gin_config.dumps_sweep(config).encode())
    (directory / 'tasks').mkdir(exist_ok=True)
    for name, task in tasks.items():
      task_path = directory / 'tasks' / f'{name}.gin'
      if not task_path.exists():
        files.write(str(task_path), gin_config.dumps(task).encode())
    yield SweepDirectory(path, config, lock, kind)
