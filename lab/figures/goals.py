"""Frames after which the runs of a sweep first reached given returns."""

import math
from typing import Optional, Sequence, Tuple

from impala_tf.runs import metrics
from impala_tf.sweeps import results as results_lib
from lab.figures import figures
from lab.figures import tables


def first_reached(points: Sequence[Tuple[float, float]], goal: float
                  ) -> Optional[float]:
  """Returns the first x of points (x, y) with y at least `goal`, if any."""
  return next((x for x, y in points if y >= goal), None)


def table(sweep_dir: str, results: tables.Results,
          goals: Sequence[float]) -> str:
  """Returns a table of goals by task and variant, a number for each run.

  Args:
    sweep_dir: directory of the sweep.
    results: finished runs of it.
    goals: mean returns of the last 100 episodes. Means of fewer, as a run
      begins, do not count where rows tell their number.

  Returns:
    Millions of environment frames in the order of the runs, as Markdown.
  """
  rows = []
  for task, variant in dict.fromkeys(
      (r.run.task, r.run.variant) for r in results):
    found = [metrics.points([
        row for row in figures.rows_of(sweep_dir, result)
        if row.get('episodes', math.inf) >= metrics.EPISODE_WINDOW],
                           'episode_return')
             for result in results_lib.select(results, task, variant)]
    rows.append([task, variant, *(
        ', '.join(_millions(first_reached(points, goal)) for points in found)
        for goal in goals)])
  return ('Million frames to a mean return of the last 100 episodes, run by '
          'run:\n\n' + tables.markdown(
              ['task', 'variant', *(f'{goal:g}' for goal in goals)], rows))


def _millions(frames: Optional[float]) -> str:
  return 'never' if frames is None else f'{frames / 1e6:.2f}'
