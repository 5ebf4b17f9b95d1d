"""Runs a sweep, here or on a Ray cluster; see `launch/sweep.sh`.

The same command resumes it: finished runs are left alone, interrupted ones go
on.

Exit codes: 0 all runs are finished, 1 some have failed (the others were run to
their ends), 2 bad input, 130 Ctrl-C, 143 asked to terminate.
"""

import argparse
import itertools
import os
import sys
from typing import Sequence

from impala_tf.processes import user_modules
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib
from launch.processes import batch
from launch.ray_cluster import engine
from launch.run import command_line
from launch.run import gin_config
from launch.run import program
from launch.run import sharing
from launch.run import sweep_directory
from launch.run import sweep_progress

_BEST = 3  # Settings that the paper's table 2 averages over.


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(prog='sweep.sh', description=__doc__)
  parser.add_argument('sweep', metavar='SWEEP.gin',
                      help='what to run, as configs/sweeps/ has it')
  parser.add_argument('--sweep_dir', required=True,
                      help='where runs and results go; an existing sweep is '
                      'resumed')
  program.add_import(parser)
  parser.add_argument('--retry_failed', action='store_true',
                      help='also run those again that have failed')
  engine.add_flags(parser, sweep_directory.SWEEP.flag)
  return parser.parse_args()


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
  return sweep_progress.table(rows)


def _run(args: argparse.Namespace) -> int:
  program.check_reverb()
  engine.check_flags(args)
  config = gin_config.load_sweep(args.sweep)
  groups = plan_lib.groups(config, plan_lib.runs(config))
  engine.enter_private_network(args, 'launch.sweep', has_servers=bool(groups))
  user_modules.load(args.modules)
  tasks, runs = sweep_directory.load_runs(config)
  sharing.check(config, groups)
  in_process = all(loaded.experiment.in_process for _, loaded in runs)
  at_least = sharing.num_together(groups)
  with engine.connected(
      args, in_process, args.sweep_dir, at_least) as host, (
          sweep_directory.claim(args.sweep_dir, config, tasks)) as directory:
    all_runs = {run.name: run for run in directory.runs}
    to_do = directory.runs_to_do(args.retry_failed)
    print(f'{len(to_do)} of {len(all_runs)} runs to do in {args.sweep_dir}, '
          f'{host.num_jobs} at a time', flush=True)
    progress = sweep_progress.Progress(
        len(all_runs) - len(to_do), len(all_runs))

    def on_end(name: str, ended: batch.Ended):
      progress.show(directory.record(
          all_runs[name], sweep_progress.status(ended), ended.error))

    shared = sharing.plan(groups, to_do, directory, host.address)
    signum = host.make_batch(directory).run(
        sharing.commands(shared, to_do, directory), on_end,
        groups=sharing.batch_groups(shared, directory))
    results = directory.results()
  print(summary(config, results))
  frames = sharing.frames_table(groups, results)
  if frames:
    print(sweep_progress.table(frames))
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
