"""Writes a sweep of the best setting of each task and variant, for more seeds.

    python -m lab.figures.best SWEEP_DIR DIR [--seeds=3]

A setting is best by its final return in a finished sweep. The seeds are new,
since settings were lucky with that sweep's. DIR gets sweep.gin, whose tasks are
named 'TASK.VARIANT', and a .gin file for each.
"""

import pathlib
import sys
from typing import Sequence

from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.runs import gin_config
from impala_tf.runs import sweep_directory
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib
from lab.figures import figures
from lab.figures import tables


def choose(results: Sequence[results_lib.Result]) -> dict[str, plan_lib.Run]:
  """Chooses a run of the best setting for each 'TASK.VARIANT' with a return."""
  chosen = {}
  for task in tables.tasks_of(results):
    for variant in tables.variants_of(results):
      selected = results_lib.select(results, task, variant)
      best = next(iter(results_lib.setting_returns(selected)), None)
      for r in selected:
        if r.run.setting == best:
          chosen[f'{task}.{variant}'] = r.run
  return chosen


def _write(sweep_dir: pathlib.Path, directory: pathlib.Path,
           seeds: int) -> None:
  results, _ = figures.read(sweep_dir / sweep_directory.RESULTS)
  directory.mkdir(parents=True, exist_ok=True)
  paths = {}
  for name, run in choose(results).items():
    config = gin_config.load(
        str(sweep_dir / 'tasks' / f'{run.task}.gin'), run.gin_bindings())
    path = directory / f'{name}.gin'
    path.write_text(gin_config.dumps(config), encoding='utf-8')
    paths[name] = str(path.resolve())
    print(f'{name}: {run.setting}', flush=True)
  (directory / sweep_directory.SWEEP.config_name).write_text(
      gin_config.dumps_sweep(
          plan_lib.SweepConfig(
              tasks=paths, num_seeds=seeds,
              first_seed=max(r.run.seed for r in results) + 1)),
      encoding='utf-8')


def main() -> None:
  parser = command_line.Parser(prog='lab.figures.best', description=__doc__)
  parser.add_argument('sweep_dir', metavar='SWEEP_DIR')
  parser.add_argument('directory', metavar='DIR')
  parser.add_argument('--seeds', type=int, default=3,
                      help='of each setting (default: %(default)s)')
  args = parser.parse_args()
  _write(pathlib.Path(args.sweep_dir), pathlib.Path(args.directory), args.seeds)


if __name__ == '__main__':
  sys.exit(program.run(main))
