"""A sweep's directory: its config, its runs, and the table of results.

    sweep.gin            the sweep's config, all values spelt out
    tasks/TASK.gin       each task's config as it was when the sweep began
    runs/TASK/VARIANT/SETTING/seed_N/   a training run each
    logs/TASK/VARIANT/SETTING/seed_N.log
    results.csv          a line for each run that has ended
"""

import contextlib
import fcntl
import os
import pathlib
from typing import Dict, Iterator, List, Mapping

from impala_tf import config as config_lib
from impala_tf.monitoring import metrics
from impala_tf.processes import user_modules
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib
from launch.run import gin_config
from launch.run import run_directory

RESULTS = 'results.csv'
_SWEEP = 'sweep.gin'
_LOCK = '.lock'
_NEW = '.new'
# A sweep that was killed before it had its config leaves only these.
_LEFTOVERS = (_LOCK, _SWEEP + _NEW)


def _write(path: pathlib.Path, text: str) -> None:
  """Writes a file as a whole or not at all."""
  new = path.with_name(path.name + _NEW)
  new.write_text(text, encoding='utf-8')
  os.replace(new, path)


class SweepDirectory:
  """The directory of one sweep while this process holds it.

  Attributes:
    lock: file descriptor; whatever process has it open holds the directory.
  """

  def __init__(self, path: str, config: plan_lib.SweepConfig, lock: int):
    """Reads the results that the directory holds already."""
    self._path = pathlib.Path(path)
    self._order = [run.name for run in plan_lib.runs(config)]
    self._results: Dict[str, results_lib.Result] = {}
    self.lock = lock
    results_path = self._path / RESULTS
    if results_path.exists():
      for result in results_lib.from_csv(
          results_path.read_text(encoding='utf-8')):
        self._results[result.run.name] = result

  @property
  def log_dir(self) -> str:
    """Directory of the output of runs."""
    return str(self._path / 'logs')

  def arguments(self, run: plan_lib.Run) -> List[str]:
    """Returns a command, which follows `python -m`, to start or resume a run.

    The command works on any machine and in any directory.
    """
    tasks = self._path / 'tasks'
    return [*run.arguments(os.path.abspath(tasks / f'{run.task}.gin'),
                           os.path.abspath(self.run_dir(run))),
            *user_modules.flags()]

  def run_dir(self, run: plan_lib.Run) -> str:
    """Returns the directory of one training run."""
    return str(self._path / 'runs' / run.name)

  def status(self, run: plan_lib.Run) -> str:
    """Returns the status of a run, or '' where nothing is known of it."""
    result = self._results.get(run.name)
    return result.status if result else ''

  def results(self) -> List[results_lib.Result]:
    """Returns the results so far, in the order of the sweep's runs."""
    return [self._results[name] for name in self._order
            if name in self._results]

  def record(self, run: plan_lib.Run, status: str,
             error: str) -> results_lib.Result:
    """Sums up a run that has ended, and writes the table of results."""
    result = results_lib.result(run, status, error,
                                  metrics.read_rows(self.run_dir(run)))
    self._results[run.name] = result
    _write(self._path / RESULTS, results_lib.to_csv(self.results()))
    return result


def _check(path: pathlib.Path, config: plan_lib.SweepConfig,
           tasks: Mapping[str, config_lib.Config]) -> None:
  """Raises RunDirectoryError where `path` is not free nor this sweep's."""
  run_directory.check_writable(path, '--sweep_dir')
  if (path / _SWEEP).exists():
    changed = plan_lib.differences(
        gin_config.load_sweep(str(path / _SWEEP)), config)
    for name, task in tasks.items():
      task_path = path / 'tasks' / f'{name}.gin'
      if task_path.exists():
        changed.extend(
            f'{name}: {difference}' for difference in gin_config.differences(
                gin_config.load(str(task_path)), task))
    if changed:
      raise run_directory.RunDirectoryError(
          f'{path} holds another sweep: {", ".join(changed)}; give the same '
          'to resume it, or another --sweep_dir')
  elif path.exists() and any(p.name not in _LEFTOVERS for p in path.iterdir()):
    raise run_directory.RunDirectoryError(
        f'{path} is not empty and holds no sweep; choose another --sweep_dir')


@contextlib.contextmanager
def claim(path: str, config: plan_lib.SweepConfig,
          tasks: Mapping[str, config_lib.Config]) -> Iterator[SweepDirectory]:
  """Makes or takes up a sweep's directory and keeps others out of it.

  Args:
    path: path of the directory.
    config: config of the sweep.
    tasks: name of each task to its config, without the sweep's bindings.

  Yields:
    The directory.

  Raises:
    RunDirectoryError: before anything is touched, where the directory is in
      use, foreign, unwritable or of another sweep.
  """
  directory = pathlib.Path(path)
  _check(directory, config, tasks)
  directory.mkdir(parents=True, exist_ok=True)
  with open(directory / _LOCK, 'wb') as lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise run_directory.RunDirectoryError(
          f'a sweep is running in {path}, or runs of one that was killed are '
          'still ending; wait for it, or choose another --sweep_dir') from None
    if not (directory / _SWEEP).exists():
      _write(directory / _SWEEP, gin_config.dumps_sweep(config))
    (directory / 'tasks').mkdir(exist_ok=True)
    for name, task in tasks.items():
      task_path = directory / 'tasks' / f'{name}.gin'
      if not task_path.exists():
        _write(task_path, gin_config.dumps(task))
    yield SweepDirectory(path, config, lock.fileno())
