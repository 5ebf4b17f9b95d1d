"""Displays of A3C, its siblings, and batched A2C beside IMPALA.

Each display has a table, as Markdown, and a figure; both are made from the
directory of a sweep and its results.
"""

import itertools
import math
import statistics
from typing import Sequence

import numpy as np

from impala_tf import config as config_lib
from impala_tf.plots import pictures
from impala_tf.runs import metrics
from impala_tf.sweeps import results as results_lib
from lab.figures import differences
from lab.figures import figures
from lab.figures import tables

_RATE = 'OptimizerConfig.learning_rate'
_X_OF_CURVES = ('frames', 'secs')

# Mean return of 100 episodes that a run is to reach. Value methods end above,
# though their workers go on to explore (0.46 to 0.76 on Catch).
_SCORES = {'catch': 0.4}

# Mnih et al. 2016, table 2: speed-ups with 1, 2, 4, 8 and 16 threads.
_PAPER_WORKERS = (1, 2, 4, 8, 16)
_PAPER_TABLE_2 = {
    'one_step_q': (1.0, 3.0, 6.3, 13.3, 24.1),
    'one_step_sarsa': (1.0, 2.8, 5.9, 13.1, 22.1),
    'n_step_q': (1.0, 2.7, 5.9, 10.7, 17.2),
    'a3c': (1.0, 2.1, 3.7, 6.9, 12.5),
}
_METHODS = {'one_step_q': '1-step Q', 'one_step_sarsa': '1-step Sarsa',
            'n_step_q': 'n-step Q', 'a3c': 'A3C'}
_TITLES = {**_METHODS, 'a2c': 'batched A2C', 'impala': 'IMPALA',
           'shared_rmsprop': 'shared RMSProp', 'rmsprop': 'RMSProp',
           'momentum_sgd': 'momentum SGD'}


def _label(variant: str) -> str:
  """Returns a variant's title for legends."""
  return _TITLES.get(variant, figures.title(variant))


def _cells(results: tables.Results):
  """Yields each task and variant that was run, with its results."""
  for task, variant in itertools.product(
      tables.tasks_of(results), tables.variants_of(results)):
    selected = results_lib.select(results, task, variant)
    if selected:
      yield task, variant, selected


# Returns over settings: figure 4, bottom, of the IMPALA paper; figure S5 of the
# A3C paper.


def ranks_table(results: tables.Results) -> str:
  """Returns a table of best, median and mean final return over settings."""
  rows = []
  for task, variant, selected in _cells(results):
    ranked = list(results_lib.setting_returns(selected).values())
    numbers = [max(ranked), statistics.median(ranked),
               statistics.fmean(ranked)] if ranked else [math.nan] * 3
    rows.append([task, variant, str(len(ranked)), *(
        tables.number(value, 2) for value in numbers)])
  return ('Final return over settings:\n\n' + tables.markdown(
      ['task', '', 'settings', 'best', 'median', 'mean'], rows))


def ranks(results: tables.Results):
  """Draws the final return against the rank of the setting."""
  styles = pictures.line_styles(tables.variants_of(results))

  def draw(axes, task):
    for variant, style in styles.items():
      ranked = list(results_lib.setting_returns(
          results_lib.select(results, task, variant)).values())
      if ranked:
        axes.plot(range(1, len(ranked) + 1), ranked, marker='.',
                  label=_label(variant), **style)

  return figures.of_tasks(results, draw, 'rank of the setting', 'final return')


def rates(results: tables.Results):
  """Draws the final return against the learning rate: a dot a run.

  As figures 2, S5 and S11 of Mnih et al. 2016. Raises UserError if the sweep
  draws no learning rates.
  """
  if not all(_RATE in r.run.bindings for r in results):
    raise config_lib.UserError(
        f'the settings of this sweep have no {_RATE}; choose another display')

  def draw(axes, task):
    for variant in tables.variants_of(results):
      dots = sorted(
          (r.run.bindings[_RATE], r.final_return)
          for r in results_lib.select(results, task, variant)
          if r.final_return is not None)
      if dots:
        axes.plot(*zip(*dots), linestyle='', marker='o', markersize=4,
                  label=_label(variant))
    axes.set_xscale('log')

  return figures.of_tasks(results, draw, 'learning rate', 'final return')


# Learning curves: figure 4, top, of the IMPALA paper.


def _cell(run: results_lib.Result) -> tuple[str, str]:
  """Splits the task name 'TASK.VARIANT' of a run, as `best` names tasks."""
  task, _, variant = run.run.task.partition('.')
  return task, variant


def figure_4_table(sweep_dir: str, results: tables.Results) -> str:
  """Returns a table of final returns, updates and times: means over seeds.

  Below it are tables of differences between the methods, in pairs of a seed.

  Times are from the first row of each run to its last, as in the figure.
  """
  rows = []
  for task, variant in dict.fromkeys(map(_cell, results)):
    ended = [r for r in results if _cell(r) == (task, variant)
             and r.final_return is not None]
    if not ended:
      rows.append([task, variant, '0', *['–'] * 6])
      continue
    of_runs = [figures.rows_of(sweep_dir, r) for r in ended]
    if not all(of_runs):
      raise config_lib.UserError(
          f'{sweep_dir} has no rows of {task}, {variant}; copy its runs, too')
    frames, secs = (sum(run[-1][name] - run[0][name] for run in of_runs)
                    for name in ('frames', 'secs'))
    lags = [lag for run in of_runs for row in run
            if (lag := row.get('policy_lag')) is not None]
    updates = [r.updates for r in ended if r.updates is not None]
    areas = [r.area for r in ended if r.area is not None]
    rows.append([
        task, variant, str(len(ended)), f'{statistics.fmean(updates):,.0f}',
        f'{statistics.fmean(lags):.1f}',
        tables.cell(tables.best_band(ended, 1)),
        f'{statistics.fmean(areas):.2f}',
        f'{secs / len(ended):,.0f}', f'{frames / secs:,.0f}'])
  by_method = []
  for r in results:
    task, method = _cell(r)
    by_method.append(r._replace(run=r.run._replace(task=task, variant=method)))
  return ('The setting that was best by another seed; final returns with '
          f'the {tables.CONFIDENCE:.0%} bootstrap interval of the seeds:\n\n'
          + tables.markdown(
              ['task', '', 'seeds', 'updates', 'policy lag', 'final return',
               'mean over training', 'seconds', 'frames/s'], rows)
          + '\n\n' + differences.of_variants(by_method, over='seeds')).rstrip()


def figure_4(sweep_dir: str, results: tables.Results):
  """Draws learning curves against frames and against wall time."""
  cells = dict.fromkeys(map(_cell, results))
  tasks = list(dict.fromkeys(task for task, _ in cells))
  styles = pictures.line_styles(list(dict.fromkeys(v for _, v in cells)))
  figure, grid = pictures.grid(len(tasks), len(_X_OF_CURVES), 2.3, 2.4)
  for (row, task), (column, x) in itertools.product(
      enumerate(tasks), enumerate(_X_OF_CURVES)):
    axes = grid[row, column]
    for variant, style in styles.items():
      curve = figures.curve_of(
          sweep_dir, [r for r in results if _cell(r) == (task, variant)], x=x)
      if curve:
        pictures.draw_band(axes, *curve, label=_label(variant), **style)
    axes.set_title(figures.title(task))
    axes.set_ylabel('return')
    pictures.label_x(axes, x)
  pictures.share_legend(figure)
  return figure


# Times to a score: table 2 of the A3C paper.


def _secs_to(score: float, rows: Sequence[metrics.Row]) -> float | None:
  """Returns the seconds from a run's first row to a score; None if missed.

  Only means of a full window of episodes count: a random game may be won. Time
  before the first row does not, since processes start meanwhile.
  """
  return next((row['secs'] - rows[0]['secs'] for row in rows
               if row['episodes'] >= metrics.EPISODE_WINDOW
               and row['episode_return'] >= score), None)


def _times(sweep_dir: str, results: tables.Results
           ) -> dict[tuple[str, str, int], list[float | None]]:
  """Returns times to a task's score by task, method and number of workers.

  Variants are named after both, as in 'a3c_4'. Raises UserError if one is not,
  or a task has no score that is to be reached.
  """
  found: dict[tuple[str, str, int], list[float | None]] = {}
  for task, variant, selected in _cells(results):
    if task not in _SCORES:
      raise config_lib.UserError(
          f'{task} has no score that is to be reached; those that have are '
          f'{", ".join(_SCORES)}')
    method, _, workers = variant.rpartition('_')
    if method not in _METHODS or not workers.isdecimal():
      raise config_lib.UserError(
          f'{variant} is no method with a number of workers, as a3c_4 is')
    found[task, method, int(workers)] = [
        _secs_to(_SCORES[task], figures.rows_of(sweep_dir, r))
        for r in selected]
  return found


def _median(times: Sequence[float | None]) -> float:
  """Returns the median time; infinite if at least half of the runs fail."""
  return statistics.median(math.inf if secs is None else secs for secs in times)


def speedup_table(sweep_dir: str, results: tables.Results) -> str:
  """Returns a table of speed-ups over one worker, beside the paper's."""
  times = _times(sweep_dir, results)
  numbers = sorted({workers for _, _, workers in times})
  rows = []
  for task, method in dict.fromkeys((t, m) for t, m, _ in times):
    alone = _median(times.get((task, method, 1), [None]))
    row = [task, _METHODS[method]]
    for workers in numbers:
      together = times.get((task, method, workers), [])
      reached = sum(secs is not None for secs in together)
      secs = _median(together) if together else math.inf
      # A score that the first row has shows no speed-up.
      if math.isinf(secs) or math.isinf(alone) or not secs or not alone:
        row.append(f'– ({reached} of {len(together)})')
      else:
        row.append(f'{alone / secs:.1f} ({secs:.0f} s)')
    paper = dict(zip(_PAPER_WORKERS, _PAPER_TABLE_2[method]))
    rows.append(row + [
        tables.number(paper.get(workers, math.nan), 1) for workers in numbers])
  scores = ', '.join(f'{_SCORES[task]:g} on {task}'
                     for task in tables.tasks_of(results))
  return (f'Speed-up by workers of the time to a mean return of {scores} '
          '(medians of seeds), and the paper\'s (table 2):\n\n'
          + tables.markdown(
              ['task', 'method', *map(str, numbers),
               *(f'paper: {workers}' for workers in numbers)], rows))


def speedup(sweep_dir: str, results: tables.Results):
  """Draws the time to the score against workers, a line a method."""
  times = _times(sweep_dir, results)

  def draw(axes, task):
    for method, name in _METHODS.items():
      points = [(workers, _median(runs)) for (t, m, workers), runs in
                times.items() if (t, m) == (task, method)]
      points = [point for point in points if math.isfinite(point[1])]
      if points:
        axes.plot(*np.array(points).T, marker='o', markersize=4, label=name)
    axes.set_xticks(sorted({workers for _, _, workers in times}))
    axes.set_ylabel(f'seconds to {_SCORES[task]:g}')
    axes.set_ylim(bottom=0)

  return figures.of_tasks(results, draw, 'workers, a process each', '',
                          columns=len(_METHODS))
