"""Figures of the analysis, made of a sweep's results with matplotlib."""

import itertools
import pathlib
from typing import Callable, Iterable, Sequence

import numpy as np

from impala_tf import config as config_lib
from impala_tf.plots import intervals
from impala_tf.plots import pictures
from impala_tf.runs import metrics
from impala_tf.sweeps import results as results_lib
from lab.figures import tables

_POINTS = 200  # Points of a curve that is a mean of several.
_TASK_NAMES = {'tmaze': 'T-maze'}


def curve_of(sweep_dir: str, results: Iterable[results_lib.Result],
             confidence: float | None = tables.CONFIDENCE, x: str = 'frames'
             ) -> tuple[np.ndarray, intervals.Band] | None:
  """Averages settings' mean returns over the range of `x` that all runs cover.

  `x` is 'frames' or 'secs'; `confidence` None leaves the interval out. Returns
  `x` [P] and the curve; None if no run has a return.
  """
  found = [(result.run.setting, points) for result in results
           if (points := points_of(sweep_dir, result, x))]
  if not found:
    return None
  settings, curves = zip(*sorted(found))
  common, returns = intervals.on_common_axis(curves, _POINTS)
  return common, tables.band_of_groups(
      returns, settings, intervals.mean, confidence)


def points_of(sweep_dir: str, result: results_lib.Result, x: str = 'frames'
              ) -> Sequence[tuple[float, float]]:
  """Returns (`x`, return) of each row of a run that has a return.

  Seconds count from the run's first row: processes that start before it take as
  long for any number of frames.
  """
  rows = rows_of(sweep_dir, result)
  start = rows[0][x] if rows and x == 'secs' else 0
  return [(value - start, height) for value, height in metrics.points(
      rows, 'episode_return', x)]


def read(path: pathlib.Path
         ) -> tuple[list[results_lib.Result], list[results_lib.Result]]:
  """Reads finished and failed runs; raises UserError if none is finished."""
  try:
    text = path.read_text(encoding='utf-8-sig')
  except OSError as error:
    raise config_lib.UserError(
        f'{path} cannot be read ({error.strerror}); is {path.parent} the '
        'directory of a sweep?') from error
  results = results_lib.from_csv(text)
  finished, failed = ([r for r in results if r.status == status] for status in (
      results_lib.FINISHED, results_lib.FAILED))
  if not finished:
    raise config_lib.UserError(f'{path} has no finished run yet')
  return finished, failed


def rows_of(sweep_dir: str, result: results_lib.Result) -> list[metrics.Row]:
  """Reads the rows of metrics of a sweep's run."""
  return metrics.read_rows(
      str(pathlib.Path(sweep_dir, 'runs', result.run.name)))


def title(task: str) -> str:
  """Returns a task's title for figures."""
  return _TASK_NAMES.get(task, task.replace('_', ' '))


def of_tasks(results: tables.Results, draw: Callable[..., None], x: str,
             y: str, height: float = 2.8, columns: int = 3):
  """Draws a panel for each task by `draw(axes, task)`, below one legend.

  `x` and `y` are titles of axes; the numbers of 'frames' are shortened.
  `height` is in inches, `columns` are the legend's.
  """
  tasks = tables.tasks_of(results)
  figure, grid = pictures.panels(len(tasks), height)
  for axes, task in zip(grid, tasks):
    axes.set_title(title(task))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    draw(axes, task)
    if x == 'frames':
      pictures.label_x(axes, x)
  pictures.share_legend(figure, columns)
  return figure


def table_2(results: tables.Results):
  """Draws the numbers of table 2 as bars: axes for each task."""
  arms = tables.arms_of(results)
  width = 0.8 / len(arms)

  def draw(axes, task):
    for place, (suffix, label) in enumerate(arms.items()):
      bands = [tables.best_band(results_lib.select(
          results, task, method + suffix), tables.BEST)
               for method in tables.METHODS]
      shift = (place - (len(arms) - 1) / 2) * width
      axes.bar(np.arange(len(bands)) + shift,
               [band.centre[0] if band else 0 for band in bands], width,
               label=label)
      for x, band in enumerate(bands):
        if band and band.low is not None:
          axes.vlines(x + shift, band.low, band.high, color='black',
                      linewidth=0.8)
    axes.axhline(0, color='black', linewidth=0.8)
    axes.set_xticks(range(len(tables.METHODS)), tables.METHODS.values(),
                    rotation=30, ha='right')

  return of_tasks(results, draw, '', f'final return, best {tables.BEST}', 2.4)


def figure_e1(sweep_dir: str, results: tables.Results):
  """Draws learning curves: a row a task, a column a method, a line a lag."""
  tasks = tables.tasks_of(results)
  figure, grid = pictures.grid(len(tasks), len(tables.METHODS), 1.75, 2.2)
  for (i, task), (j, (method, name)) in itertools.product(
      enumerate(tasks), enumerate(tables.METHODS.items())):
    axes = grid[i, j]
    axes.sharey(grid[i, 0])
    for lag in tables.LAGS:
      curve = curve_of(sweep_dir, results_lib.select(
          results, task, f'{method}_lag_{lag}'))
      if curve:
        pictures.draw_band(axes, *curve, label=f'lag {lag}')
    axes.set_title(f'{title(task)},\n{name}')
    pictures.label_x(axes, 'frames')
    axes.set_xlabel('frames')  # The whole words are wider than these axes.
    grid[i, 0].set_ylabel('return')
  pictures.share_legend(figure, len(tables.LAGS))
  return figure


def lags(results: tables.Results):
  """Draws the final return against the policy lag: a line a method."""
  def draw(axes, task):
    for method, name in tables.METHODS.items():
      # Runs of each lag are others: an interval at each lag by itself.
      by_lag = {lag: band for lag in tables.LAGS if (
          band := tables.mean_band(results_lib.select(
              results, task, f'{method}_lag_{lag}')))}
      if not by_lag:
        continue
      has_interval = all(band.low is not None for band in by_lag.values())
      pictures.draw_band(
          axes, np.array([tables.LAGS.index(lag) for lag in by_lag]),
          intervals.Band(*(
              np.concatenate(parts) if i == 0 or has_interval else None
              for i, parts in enumerate(zip(*by_lag.values())))),
          label=name, marker='o', markersize=4)
    axes.set_xticks(range(len(tables.LAGS)), tables.LAGS)

  return of_tasks(results, draw, 'policy lag, updates', 'final return',
                  columns=len(tables.METHODS))


def figure_e2(results: tables.Results):
  """Draws final return against rank: a row a task, a column an arm."""
  tasks, arms = tables.tasks_of(results), tables.arms_of(results)
  figure, grid = pictures.grid(len(tasks), len(arms), 2.3, 2.2)
  for (i, task), (j, (suffix, arm)) in itertools.product(
      enumerate(tasks), enumerate(arms.items())):
    axes = grid[i, j]
    axes.sharey(grid[i, 0])
    for method, name in tables.METHODS.items():
      returns = list(results_lib.setting_returns(results_lib.select(
          results, task, method + suffix)).values())
      axes.plot(range(1, len(returns) + 1), returns, marker='.', label=name)
    axes.set_title(f'{title(task)},\n{arm[0].lower()}{arm[1:]}')
    axes.set_xlabel('rank of the setting')
    axes.set_ylabel('final return')
  pictures.share_legend(figure, len(tables.METHODS))
  return figure


def figure_e3(sweep_dir: str, results: tables.Results):
  """Draws curves of the best three settings: v_{s+1} against V(x_{s+1})."""

  def draw(axes, task):
    for variant, label in (('vtrace', r'$r_s + \gamma v_{s+1}$'),
                           ('vtrace_value', r'$r_s + \gamma V(x_{s+1})$')):
      runs = results_lib.select(results, task, variant)
      best = list(results_lib.setting_returns(runs))[:tables.BEST]
      # Without an interval: settings are no sample of anything.
      curve = curve_of(sweep_dir, [r for r in runs if r.run.setting in best],
                       confidence=None)
      if curve:
        pictures.draw_band(axes, *curve, label=label)

  return of_tasks(results, draw, 'frames',
                  f'return, mean of best {tables.BEST}', 2.4)


def variants(results: tables.Results):
  """Draws the final return of each variant, the mean over all settings."""
  tasks = tables.tasks_of(results)
  styles = pictures.line_styles(tables.variants_of(results))
  figure, grid = pictures.panels(len(tasks), height=2.8)
  for axes, task in zip(grid, tasks):
    for variant, style in styles.items():
      band = tables.mean_band(results_lib.select(results, task, variant))
      if not band:
        continue
      axes.bar(title(variant), band.centre[0], color=style['color'])
      if band.low is not None:
        axes.vlines(title(variant), band.low, band.high, color='black',
                    linewidth=0.8)
    axes.axhline(0, color='black', linewidth=0.8)
    axes.tick_params('x', rotation=30)
    axes.set_title(title(task))
    axes.set_ylabel('final return')
  return figure


def best_agents(sweep_dir: str, results: tables.Results):
  """Draws the return of the best agent at each moment, a line a variant.

  The agents of a seed are its settings; the band is the range of the seeds
  (Schmitt et al. 2020, figures 1 and 3).
  """

  def draw(axes, task):
    for variant in tables.variants_of(results):
      found = []
      for seed in dict.fromkeys(r.run.seed for r in results):
        agents = [points for r in results_lib.select(results, task, variant)
                  if r.run.seed == seed and (points := points_of(sweep_dir, r))]
        if agents:
          frames, returns = intervals.on_common_axis(agents, _POINTS)
          found.append(list(zip(frames, returns.max(axis=0))))
      if found:
        frames, best = intervals.on_common_axis(found, _POINTS)
        pictures.draw_band(axes, frames, intervals.Band(
            intervals.mean(best), best.min(axis=0), best.max(axis=0)),
                           label=title(variant))

  return of_tasks(results, draw, 'frames', 'return of the best agent', 3.2)


def curves_of_variants(sweep_dir: str, results: tables.Results):
  """Draws learning curves, a line a variant: mean and its interval."""

  def draw(axes, task):
    for variant in tables.variants_of(results):
      curve = curve_of(sweep_dir, results_lib.select(results, task, variant))
      if curve:
        pictures.draw_band(axes, *curve, label=title(variant))

  return of_tasks(results, draw, 'frames', 'return', 3.2)
