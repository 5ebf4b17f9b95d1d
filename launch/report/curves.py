"""Points of learning curves, and figures that need no display."""

import os
from typing import List, Sequence, Tuple

import matplotlib.figure

from impala_tf import config as config_lib
from impala_tf.monitoring import metrics


def read_rows(run_dir: str) -> List[metrics.Row]:
  """Reads the rows of a run's `metrics.jsonl`, oldest first.

  Returns:
    The rows; none where there is no such file.

  Raises:
    UserError: where the file holds something else.
  """
  try:
    return metrics.read_rows(run_dir)
  except ValueError as error:
    raise config_lib.UserError(
        f'{os.path.join(run_dir, metrics.FILE_NAME)} is damaged ({error}); '
        'remove the line that is no JSON') from error


def points(rows: Sequence[metrics.Row], metric: str,
           x: str = 'frames') -> List[Tuple[float, float]]:
  """Returns pairs of `x` and `metric`, of the rows that have both."""
  return [(row[x], row[metric]) for row in rows
          if row.get(metric) is not None and row.get(x) is not None]


def grid(num_rows: int, num_columns: int, width: float = 3.4,
         height: float = 2.8):
  """Makes a figure of several axes.

  Args:
    num_rows: rows of axes.
    num_columns: columns of axes.
    width: width of each of the axes in inches.
    height: height of each of the axes in inches.

  Returns:
    The figure, and its axes [num_rows, num_columns].
  """
  # Without pyplot, which may want a display.
  figure = matplotlib.figure.Figure(
      figsize=(width * num_columns, height * num_rows), layout='constrained')
  return figure, figure.subplots(num_rows, num_columns, squeeze=False)


def save(figure: matplotlib.figure.Figure, path: str) -> None:
  """Writes a figure to a file; raises UserError where it cannot be written."""
  try:
    figure.savefig(path, dpi=120)
  except (OSError, ValueError) as error:
    raise config_lib.UserError(
        f'cannot write {path}: {error}; choose another --output') from error
