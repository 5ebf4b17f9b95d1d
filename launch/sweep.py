"""Runs a sweep, here or on a Ray cluster; see `launch/sweep.sh`.

The same command resumes it: finished runs are left alone, interrupted ones go
on.

Exit codes: 0 all runs are finished, 1 some have failed (the others were run to
their ends), 2 bad input, 130 Ctrl-C, 143 asked to terminate.
"""

import argparse
import contextlib
import datetime
import itertools
import os
import sys
import time
from typing import Callable, Dict, Iterator, List, Sequence, Tuple

from impala_tf import config as config_lib
from impala_tf.processes import sizing
from impala_tf.processes import user_modules
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib
from launch.processes import batch
from launch.processes import local
from launch.ray_cluster import connection as ray_connection
from launch.run import command_line
from launch.run import gin_config
from launch.run import program
from launch.run import sweep_directory

_BEST = 3  # Settings that the paper's table 2 averages over.
# Variables of a run within one process, which otherwise has as many threads as
# the machine has cores.
_ONE_THREAD = {'TF_NUM_INTRAOP_THREADS': '1', 'TF_NUM_INTEROP_THREADS': '1'}
_WAIT_SECS = 600.  # Longest wait for room while no run has any.


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(prog='sweep.sh', description=__doc__)
  parser.add_argument('sweep', metavar='SWEEP.gin',
                      help='what to run, as configs/sweeps/ has it')
  parser.add_argument('--sweep_dir', required=True,
                      help='where runs and results go; an existing sweep is '
                      'resumed')
  program.add_import(parser)
  parser.add_argument('--jobs', type=int,
                      help='runs at a time (default: one a core where all runs '
                      'are in_process, else one; on Ray as many as there is '
                      'room for)')
  parser.add_argument('--retry_failed', action='store_true',
                      help='also run those again that have failed')
  parser.add_argument('--engine', choices=('local', 'ray'), default='local',
                      help='what runs them: this machine, or a Ray cluster '
                      'whose nodes share --sweep_dir (default: %(default)s)')
  program.add_ray_address(parser)
  parser.add_argument('--run_cpus', type=float,
                      help='that Ray reserves for a run (default: 1 where all '
                      'runs are in_process, else all of the smallest node)')
  parser.add_argument('--run_gpus', type=float, default=0.,
                      help='likewise (default: %(default)g)')
  return parser.parse_args()


def check_runs(config: plan_lib.SweepConfig
               ) -> Tuple[Dict[str, config_lib.Config], bool]:
  """Reads each task's config, alone and with the bindings of every run.

  Args:
    config: config of the sweep.

  Returns:
    Config of each task, and whether each run is a single process.

  Raises:
    ConfigError: where a run could not work.
  """
  tasks = {task: gin_config.load(path) for task, path in config.tasks.items()}
  in_process = True
  configs = {}  # By what is checked of them.
  for run in plan_lib.runs(config, plan_lib.corners(config)):
    if run.seed > 1:  # All seeds are alike.
      continue
    loaded = gin_config.load(config.tasks[run.task], run.gin_bindings())
    in_process &= loaded.experiment.in_process
    configs[loaded.environment, loaded.agent, loaded.actor, loaded.impala,
            loaded.experiment.algorithm] = loaded
  for loaded in configs.values():
    program.check_names(loaded)
  return tasks, in_process


class _Progress:
  """Progress of a sweep, printed as a line for each run that ends."""

  def __init__(self, num_done: int, num_runs: int):
    self._before = self._num_done = num_done
    self._num_runs = num_runs
    self._start = time.monotonic()

  def show(self, result: results_lib.Result) -> None:
    """Prints the line of a run that has ended."""
    if result.status != results_lib.INTERRUPTED:
      self._num_done += 1
    parts = [f'[{self._num_done}/{self._num_runs}] {result.run.name} '
             f'{result.status}']
    if result.error:
      parts.append(result.error)
    if result.final_return is not None:
      parts.append(f'return {result.final_return:.2f}')
    if result.secs is not None:
      parts.append(f'{result.secs:.0f} s')
    here = self._num_done - self._before
    if here:
      secs = (time.monotonic() - self._start) / here
      left = secs * (self._num_runs - self._num_done)
      parts.append(f'ETA {datetime.timedelta(seconds=round(left))}')
    print(' · '.join(parts), flush=True)


def _table(rows: Sequence[Sequence[str]]) -> str:
  """Returns rows as lines of text, with aligned columns.

  The first two columns are aligned to the left, the others, which are numbers,
  to the right.
  """
  widths = [max(map(len, column)) for column in zip(*rows)]
  return '\n'.join(
      '  '.join(cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
      for row in rows)


def summary(config: plan_lib.SweepConfig,
            results: Sequence[results_lib.Result]) -> str:
  """Returns a table with a line for each task and variant.

  Its columns are the runs by status, the mean final return of the best three
  settings and of all (see `results`), and the best setting.
  """
  rows = [['task', 'variant', 'finished', 'failed', f'best {_BEST}', 'all',
           'best setting']]
  for task, variant in itertools.product(config.tasks, config.variants):
    selected = results_lib.select(results, task, variant)
    statuses = [result.status for result in selected]
    returns = results_lib.setting_returns(selected)
    rows.append([
        task, variant, str(statuses.count(results_lib.FINISHED)),
        str(statuses.count(results_lib.FAILED)),
        f'{results_lib.best_mean(selected, _BEST):.2f}',
        f'{results_lib.rank_area(selected):.2f}', next(iter(returns), '-')])
  return _table(rows)


def _runs_to_do(directory: sweep_directory.SweepDirectory,
                all_runs: Sequence[plan_lib.Run],
                retry_failed: bool) -> List[plan_lib.Run]:
  done = {results_lib.FINISHED}
  if not retry_failed:
    done.add(results_lib.FAILED)
  return [run for run in all_runs if directory.status(run) not in done]


def _status(ended: batch.Ended) -> str:
  if ended.exit_code == 0:
    return results_lib.FINISHED
  if ended.was_stopped:
    return results_lib.INTERRUPTED
  return results_lib.FAILED


def _check_flags(args: argparse.Namespace) -> None:
  if args.jobs is not None and args.jobs < 1:
    raise config_lib.UserError(f'--jobs must be at least 1, but is {args.jobs}')
  if args.run_cpus is not None and not args.run_cpus > 0:
    raise config_lib.UserError(
        f'--run_cpus must be above 0, but is {args.run_cpus:g}')
  if not args.run_gpus >= 0:
    raise config_lib.UserError(
        f'--run_gpus must be at least 0, but is {args.run_gpus:g}')
  if args.engine != 'ray' and (args.ray_address or args.run_cpus
                               or args.run_gpus):
    raise config_lib.UserError(
        '--ray_address, --run_cpus and --run_gpus are for --engine=ray; give '
        'that, too, or leave them out')


_MakeBatch = Callable[[sweep_directory.SweepDirectory], batch.Batch]


@contextlib.contextmanager
def _connected(args: argparse.Namespace,
               in_process: bool) -> Iterator[Tuple[int, _MakeBatch]]:
  """Connects to the host of the runs.

  Args:
    args: flags of the program.
    in_process: whether each run is a single process.

  Yields:
    The number of runs at a time, and what makes their batch.
  """
  environment = _ONE_THREAD if in_process else {}
  if args.engine == 'local':
    # Runs keep one thread whatever --jobs is: results must not depend on it.
    num_jobs = args.jobs or (sizing.num_cores() if in_process else 1)
    yield num_jobs, lambda directory: local.make_batch(
        num_jobs, directory.log_dir, environment, keep_open=directory.lock)
    return
  with ray_connection.connected(args.ray_address) as nodes:
    from launch.ray_cluster import batch as ray_batch  # Imports Ray.
    all_of_a_node = min((n.cpus for n in nodes if n.cpus), default=1.)
    needs = ray_connection.Resources(
        args.run_cpus or (1. if in_process else all_of_a_node), args.run_gpus)
    room = ray_connection.num_places(nodes, needs)
    if not room:
      raise config_lib.UserError(
          f'no node has {needs} for a run: the cluster has '
          f'{ray_connection.describe(nodes)}; give smaller --run_cpus or '
          '--run_gpus, or add such a node')
    num_jobs = min(args.jobs or room, room)
    yield num_jobs, lambda directory: ray_batch.make_batch(
        num_jobs, directory.log_dir, environment, needs,
        [os.path.abspath(args.sweep_dir), *user_modules.paths()], _WAIT_SECS)


def _run(args: argparse.Namespace) -> int:
  _check_flags(args)
  if args.engine == 'ray' and not args.ray_address:
    # Ray listens on all interfaces, and runs whatever it is sent.
    why_public = program.enter_private_network('launch.sweep', 'auto')
    if why_public:
      print('Ray is open to every machine that reaches this one '
            f'(docs/cluster.md: what to close); {why_public}', flush=True)
  user_modules.load(args.modules)
  config = gin_config.load_sweep(args.sweep)
  tasks, in_process = check_runs(config)
  with _connected(args, in_process) as (
      num_jobs, make_batch), sweep_directory.claim(
          args.sweep_dir, config, tasks) as directory:
    all_runs = {run.name: run for run in plan_lib.runs(config)}
    to_do = _runs_to_do(directory, list(all_runs.values()), args.retry_failed)
    print(f'{len(to_do)} of {len(all_runs)} runs to do in {args.sweep_dir}, '
          f'{num_jobs} at a time', flush=True)
    progress = _Progress(len(all_runs) - len(to_do), len(all_runs))

    def on_end(name: str, ended: batch.Ended):
      progress.show(directory.record(
          all_runs[name], _status(ended), ended.error))

    signum = make_batch(directory).run(
        {run.name: directory.arguments(run) for run in to_do}, on_end)
    results = directory.results()
  print(summary(config, results))
  print(f'All results: {os.path.join(args.sweep_dir, sweep_directory.RESULTS)}')
  finished = sum(r.status == results_lib.FINISHED for r in results)
  if signum is not None:
    print(f'Stopped with {finished} of {len(all_runs)} runs finished; the same '
          'command resumes')
    return 128 + signum
  return 0 if finished == len(all_runs) else 1


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _run(_parse_args()))


if __name__ == '__main__':
  sys.exit(main())
