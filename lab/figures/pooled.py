"""Comparisons of the methods over all tasks of a sweep together.

Returns of tasks are put on one scale: 0 is the lowest final return of a task's
runs in the sweep, 1 the highest. The statistics are those of Agarwal et al.
2021 ("Deep Reinforcement Learning at the Edge of the Statistical Precipice"),
with a stratified bootstrap: seeds are drawn within each task and setting. Their
package, rliable, computes the same, but needs three others for it.
"""

from typing import List, Tuple

import numpy as np

from impala_tf.plots import intervals
from impala_tf.plots import pictures
from impala_tf.sweeps import results as results_lib
from lab.figures import tables

_POINTS = 101  # Scores at which a profile is drawn.


def scores(results: tables.Results, variant: str
           ) -> Tuple[np.ndarray, List[str]]:
  """Returns a variant's final returns of all tasks on the whole sweep's scale.

  They are float [N, 1], with the N runs' strata: each of a task and setting.
  """
  found, strata = [], []
  for task in tables.tasks_of(results):
    returns = [r.final_return for r in results
               if r.run.task == task and r.final_return is not None]
    if not returns:
      continue
    low, span = min(returns), (max(returns) - min(returns)) or 1.
    for setting, values in results_lib.seed_returns(
        results_lib.select(results, task, variant)).items():
      found += [(value - low) / span for value in values]
      strata += [f'{task}/{setting}'] * len(values)
  return np.array(found)[:, np.newaxis], strata


def table(results: tables.Results) -> str:
  """Returns a table of interquartile means: a row a method, a column an arm."""
  arms = tables.arms_of(results)
  rows = []
  for method, name in tables.METHODS.items():
    row = [name]
    for suffix in arms:
      values, strata = scores(results, method + suffix)
      row.append(tables.cell(intervals.band(
          values, strata, intervals.interquartile_mean, tables.CONFIDENCE)
          if strata else None))
    rows.append(row)
  return ('Interquartile mean of the final returns of all tasks, settings and '
          'seeds, each on a scale from the lowest (0) to the highest (1) of '
          f'its task, with the {tables.CONFIDENCE:.0%} bootstrap interval:\n\n'
          + tables.markdown(['', *arms.values()], rows))


def profiles(results: tables.Results):
  """Draws performance profiles, one set of axes an arm and a line a method.

  A profile is the share of runs whose score is above each of a range of scores.
  """
  arms = tables.arms_of(results)
  figure, grid = pictures.panels(len(arms), height=3.2)
  above = np.linspace(0, 1, _POINTS)
  for axes, (suffix, arm) in zip(grid, arms.items()):
    for method, name in tables.METHODS.items():
      values, strata = scores(results, method + suffix)
      if strata:
        pictures.draw_band(axes, above, intervals.band(
            (values > above).astype(float), strata, intervals.mean,
            tables.CONFIDENCE), label=name)
    axes.set_title(arm)
    axes.set_xlabel('score')
    axes.set_ylabel('share of runs above it')
  pictures.share_legend(figure, len(tables.METHODS))
  return figure
