"""What pictures of runs are made of: points, and figures without a display."""

import os
from typing import List, Sequence, Tuple

import matplotlib.figure

from impala_tf import config as config_lib
from impala_tf.monitoring import metrics


def read_rows(run_dir: str) -> List[metrics.Row]:
  """Rows of a run's `metrics.jsonl`, oldest first; none where there is none.

  Raises:
    UserError: where something else is in it.
  """
  try:
    return metrics.read_rows(run_dir)
  except ValueError as error:
    raise config_lib.UserError(
        f'{os.path.join(run_dir, metrics.FILE_NAME)} is damaged ({error}); '
        'remove the line that is no JSON') from error


def points(rows: Sequence[metrics.Row], metric: str,
           x: str = 'frames') -> List[Tuple[float, float]]:
  """A curve, of those rows that have both."""
  return [(row[x], row[metric]) for row in rows
          if row.get(metric) is not None and row.get(x) is not None]


def grid(num_rows: int, num_columns: int, width: float = 3.4,
         height: float = 2.8):
  """A figure and its axes [num_rows, num_columns], inches each."""
  # Without pyplot, which may want a display.
  figure = matplotlib.figure.Figure(
      figsize=(width * num_columns, height * num_rows), layout='constrained')
  return figure, figure.subplots(num_rows, num_columns, squeeze=False)


def save(figure: matplotlib.figure.Figure, path: str) -> None:
  """Writes a picture; raises UserError where that cannot be."""
  try:
    figure.savefig(path, dpi=120)
  except (OSError, ValueError) as error:
    raise config_lib.UserError(
        f'cannot write {path}: {error}; choose another --output') from error
