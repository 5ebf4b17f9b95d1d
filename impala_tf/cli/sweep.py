"""Runs a sweep, here or on a Ray cluster.

The same command resumes it: finished runs stay as they are, interrupted ones
are resumed.

Exit codes: 0 all runs are finished, 1 some have failed (the others were run to
their ends), 2 bad input, 130 Ctrl-C, 143 asked to terminate.
"""

import itertools
from typing import Sequence

from impala_tf.cli import engine
from impala_tf.plots import suite_tables
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib

_BEST = 3  # Settings that the paper's table 2 averages over.


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
        f'{results_lib.best_mean(selected, None):.2f}',
        next(iter(returns), '-')])
  return suite_tables.table(rows, num_names=2)


class _Program(engine.Program):
  """Trains the runs of a sweep in order."""

  def show(self, config, path, results):
    print(summary(config, results))


def main() -> int:
  """Returns the exit code."""
  return _Program().main(__doc__)
