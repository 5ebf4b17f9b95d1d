"""Names of runs in legends and tables: the parts of paths that differ."""

import itertools
import os
from typing import List, Sequence, Tuple

from impala_tf.runs import metrics
from impala_tf.runs import run_directory


def of_runs(run_dirs: Sequence[str]) -> List[str]:
  """Names runs by the fewest parts of their paths that distinguish them.

  Parts that begin or end all paths are left out, and if all paths are equally
  deep every part that they share: 'sweep/catch/vtrace/seed_1' and
  'sweep/catch/none/seed_1' become 'vtrace' and 'none'. A single run has its
  directory's name. 'evaluation' at the end, for an evaluator's rows, becomes
  the note ', evaluated'. Runs may also be files like metrics.jsonl.
  """
  split = [_split(run_dir) for run_dir in run_dirs]
  # A run and its evaluation have one path and so one name.
  names = _distinguished(list(dict.fromkeys(path for path, _ in split)))
  return [names[path] + (', evaluated' if is_evaluation else '')
          for path, is_evaluation in split]


def _split(run_dir: str) -> Tuple[Tuple[str, ...], bool]:
  """Returns the parts of a run's path, and whether it is the evaluation's."""
  if '://' not in run_dir:
    run_dir = os.path.abspath(run_dir)
  parts = tuple(part for part in run_dir.split('/') if part)
  if parts[-1] == metrics.FILE_NAME:
    parts = parts[:-1]
  parts = (*parts[:-1], parts[-1].removesuffix('.jsonl'))
  if len(parts) > 1 and parts[-1] == run_directory.EVALUATION:
    return parts[:-1], True
  return parts, False


def _distinguished(paths: Sequence[Tuple[str, ...]]) -> dict:
  """Maps each of several different paths to a unique name."""
  if len(paths) == 1:
    return {paths[0]: paths[0][-1]}
  if len({len(path) for path in paths}) == 1:
    differs = [len(set(parts)) > 1 for parts in zip(*paths)]
    return {path: '/'.join(itertools.compress(path, differs))
            for path in paths}
  # Each keeps one part.
  start = len(os.path.commonprefix([path[:-1] for path in paths]))
  end = len(os.path.commonprefix([path[:start:-1] for path in paths]))
  return {path: '/'.join(path[start:len(path) - end]) for path in paths}
