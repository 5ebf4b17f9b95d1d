"""Rows of runs, and points of their learning curves."""

import json
import os
from typing import List, Sequence, Tuple

from impala_tf import config as config_lib
from impala_tf.runs import metrics


def read_rows(run_dir: str) -> List[metrics.Row]:
  """Reads the rows of a run, oldest first; empty without a file.

  `run_dir` may also be the path of a file like `metrics.jsonl`. Raises
  UserError if it holds something else.
  """
  path = os.path.join(run_dir, metrics.FILE_NAME)
  try:
    if os.path.isfile(run_dir):
      path = run_dir
      with open(path, encoding='utf-8') as lines:
        return [json.loads(line) for line in lines]
    return metrics.read_rows(run_dir)
  except ValueError as error:
    raise config_lib.UserError(
        f'{path} is damaged ({error}); remove the line that is no JSON'
    ) from error


def points(rows: Sequence[metrics.Row], metric: str,
           x: str = 'frames') -> List[Tuple[float, float]]:
  """Returns pairs of `x` and `metric` from the rows that have both."""
  return [(row[x], row[metric]) for row in rows
          if row.get(metric) is not None and row.get(x) is not None]
