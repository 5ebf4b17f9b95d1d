"""Figures of the analysis, made of a sweep's results with matplotlib."""

import itertools
import pathlib
from typing import Iterable, Sequence

from matplotlib import ticker
import numpy as np

from impala_tf.sweeps import results as results_lib
from launch.analysis import tables
from launch.report import curves

_POINTS = 200  # Points of a curve that is a mean of several.


def _curves(sweep_dir: str, results: Iterable[results_lib.Result]):
  """Returns common frames [P] of runs, and their returns [runs, P] there."""
  found = []
  for result in results:
    points = curves.points(curves.read_rows(str(pathlib.Path(
        sweep_dir, 'runs', result.run.name))), 'episode_return')
    if points:
      found.append(np.array(points).T)
  if not found:
    return np.empty(0), np.empty((0, 0))
  frames = np.linspace(max(x[0] for x, _ in found),
                       min(x[-1] for x, _ in found), _POINTS)
  return frames, np.array([np.interp(frames, x, y) for x, y in found])


def _label_frames(axes) -> None:
  """Labels frames in thousands or millions, as long numbers would overlap."""
  axes.set_xlabel('environment frames')
  axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=''))


def _best(results: Sequence[results_lib.Result]):
  """Returns the runs of the best settings."""
  names = list(results_lib.setting_returns(results))[:tables.BEST]
  return [r for r in results if r.run.setting in names]


def table_2(sweep_dir: str, results: tables.Results):
  """Draws the numbers of table 2 as bars: axes for each task."""
  del sweep_dir
  tasks = tables.tasks_of(results)
  figure, (row,) = curves.grid(1, len(tasks))
  width = 0.4
  for axes, task in zip(row, tasks):
    for shift, (suffix, title) in zip((-0.5, 0.5), tables.REPLAY.items()):
      heights = [results_lib.best_mean(results_lib.select(
          results, task, method + suffix), tables.BEST)
                 for method in tables.METHODS]
      axes.bar(np.arange(len(heights)) + shift * width, heights, width,
               label=title)
    axes.set_xticks(range(len(tables.METHODS)), tables.METHODS.values(),
                    rotation=30, fontsize=7)
    axes.set_title(task, fontsize=9)
  row[0].set_ylabel(f'final return, best {tables.BEST}')
  row[0].legend(fontsize=7)
  return figure


def figure_e1(sweep_dir: str, results: tables.Results):
  """Draws learning curves: a row a task, a column a method, a line a lag."""
  tasks = tables.tasks_of(results)
  figure, grid = curves.grid(len(tasks), len(tables.METHODS))
  for (i, task), (j, (method, name)) in itertools.product(
      enumerate(tasks), enumerate(tables.METHODS.items())):
    axes = grid[i, j]
    for lag in tables.LAGS:
      frames, returns = _curves(sweep_dir, results_lib.select(
          results, task, f'{method}_lag_{lag}'))
      if returns.size:
        axes.plot(frames, returns.mean(axis=0), label=str(lag))
    axes.set_title(f'{task}, {name}', fontsize=9)
  _share_limits(grid)
  grid[0, 0].legend(title='lag', fontsize=7)
  return figure


def _share_limits(grid) -> None:
  """Gives the axes of each row, which is one task, the same limits."""
  for row in grid:
    low, high = zip(*(axes.get_ylim() for axes in row))
    for axes in row:
      axes.set_ylim(min(low), max(high))
    row[0].set_ylabel('return')
  for axes in grid.flat:
    _label_frames(axes)


def figure_e2(sweep_dir: str, results: tables.Results):
  """Draws the final return against the rank of the setting, with replay."""
  del sweep_dir
  tasks = tables.tasks_of(results)
  figure, (row,) = curves.grid(1, len(tasks))
  for axes, task in zip(row, tasks):
    for method, name in tables.METHODS.items():
      returns = results_lib.ranked(results_lib.select(
          results, task, f'{method}_replay'))
      axes.plot(range(1, len(returns) + 1), returns, marker='.', label=name)
    axes.set_title(task, fontsize=9)
    axes.set_xlabel('rank of the setting')
  row[0].set_ylabel('final return')
  row[0].legend(fontsize=7)
  return figure


def figure_e3(sweep_dir: str, results: tables.Results):
  """Draws curves of the best three settings: v_{s+1} against V(x_{s+1})."""
  tasks = tables.tasks_of(results)
  figure, grid = curves.grid(1, len(tasks))
  for axes, task in zip(grid[0], tasks):
    for variant, label in (('vtrace', r'$r_s + \gamma v_{s+1}$'),
                           ('vtrace_value', r'$r_s + \gamma V(x_{s+1})$')):
      frames, returns = _curves(
          sweep_dir, _best(results_lib.select(results, task, variant)))
      if returns.size:
        axes.plot(frames, returns.mean(axis=0), label=label)
    axes.set_title(task, fontsize=9)
    _label_frames(axes)
  grid[0, 0].set_ylabel(f'return, mean of best {tables.BEST}')
  grid[0, 0].legend(fontsize=7)
  return figure


def replay(sweep_dir: str, results: tables.Results):
  """Draws learning curves with and without replay: mean and range of seeds."""
  tasks = tables.tasks_of(results)
  figure, grid = curves.grid(1, len(tasks))
  for axes, task in zip(grid[0], tasks):
    for variant in dict.fromkeys(r.run.variant for r in results):
      frames, returns = _curves(
          sweep_dir, results_lib.select(results, task, variant))
      if returns.size:
        axes.plot(frames, returns.mean(axis=0), label=variant)
        axes.fill_between(frames, returns.min(axis=0), returns.max(axis=0),
                          alpha=0.25)
    axes.set_title(task, fontsize=9)
    _label_frames(axes)
  grid[0, 0].set_ylabel('return')
  grid[0, 0].legend(fontsize=7)
  return figure
