"""Metrics and evaluations of runs, read from their directories."""

import fnmatch
import glob
import itertools
import os
from typing import Any, Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.plots import suite_results
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from impala_tf.storage import files
from impala_tf.suites import levels as levels_lib
from impala_tf.suites import suite as suite_lib

Results = Mapping[str, Mapping[str, Any]]  # Level to result of evaluate.sh.


class Run(NamedTuple):
  """A training run, read from its directory."""
  label: str  # Unique among the runs.
  levels: tuple[str, ...]  # That it was trained on.
  torso: str  # As in `AgentConfig.torso`.
  rows: list[metrics.Row]  # Of its metrics.jsonl; may be empty.
  results: Results  # Of levels that it was evaluated on; may be empty.

  def curve(self, level: str) -> list[tuple[float, float]]:
    """Returns points (frames of a level, mean return of its last episodes)."""
    if len(self.levels) == 1:
      return metrics.points(self.rows, 'episode_return')
    return metrics.points(self.rows, f'level/{level}/episode_return',
                         f'level/{level}/frames')

  def paper_agents(self, suite: suite_lib.Suite) -> list[str]:
    """Names the paper's agents that this run can be compared with.

    A run of one level is compared with experts, on Atari with the same network;
    a run of several with deep agents of many levels.
    """
    names = 'IMPALA', 'IMPALA (deep, multi-task)'
    if len(self.levels) == 1:
      names = 'IMPALA-Experts', f'IMPALA ({self.torso})'
    return [name for name in suite.paper if name in names]


def find(patterns: Sequence[str]) -> list[str]:
  """Finds the runs that paths or patterns name, each once.

  Raises UserError if one of them does not exist.
  """
  found: dict[str, str] = {}  # By real path or URL.
  for pattern in patterns:
    run_directory.reach(pattern)
    paths = [pattern] if files.exists(pattern) else sorted(
        path for path in glob.glob(pattern)
        if os.path.isdir(path) or path.endswith('.jsonl'))
    empty = [path for path in paths if len(paths) > 1
             and os.path.exists(gin_config.config_path(path))
             and not metrics.read_rows(path) and not _results(path)]
    for path in empty:
      print(f'note: {path} is left out, since it has no rows yet')
      paths.remove(path)
    if not paths:
      raise config_lib.UserError(
          f'there is no run {pattern}{" with rows" * bool(empty)}; name '
          'directories of runs')
    for path in paths:
      key = path if files.is_url(path) else os.path.realpath(path)
      found.setdefault(key, path)
  return list(found.values())


def labels(run_dirs: Sequence[str]) -> list[str]:
  """Names runs by the parts of their paths that distinguish them.

  Parts that begin or end all paths are left out. If all paths are equally deep,
  every part that they share is: 'sweep/catch/vtrace/seed_1' and
  'sweep/catch/none/seed_1' become 'vtrace' and 'none'. 'evaluation' at the end,
  for an evaluator's rows, becomes the note ', evaluated'. Runs may also be
  files like metrics.jsonl.
  """
  split = [_split_path(run_dir) for run_dir in run_dirs]
  # A run and its evaluation have one path and so one name.
  names = _distinguished(list(dict.fromkeys(path for path, _ in split)))
  return [names[path] + (', evaluated' if is_evaluation else '')
          for path, is_evaluation in split]


def _split_path(run_dir: str) -> tuple[tuple[str, ...], bool]:
  if '://' not in run_dir:
    run_dir = os.path.abspath(run_dir)
  parts = tuple(part for part in run_dir.split('/') if part)
  if parts[-1] == metrics.FILE_NAME:
    parts = parts[:-1]
  parts = (*parts[:-1], parts[-1].removesuffix('.jsonl'))
  if len(parts) > 1 and parts[-1] == run_directory.EVALUATION:
    return parts[:-1], True
  return parts, False


def _distinguished(paths: Sequence[tuple[str, ...]]) -> dict:
  if len({len(path) for path in paths}) == 1 < len(paths):
    differs = [len(set(parts)) > 1 for parts in zip(*paths)]
    return {path: '/'.join(itertools.compress(path, differs)) for path in paths}
  # Each keeps one part.
  start = len(os.path.commonprefix([path[:-1] for path in paths]))
  end = len(os.path.commonprefix([path[:start:-1] for path in paths]))
  return {path: '/'.join(path[start:len(path) - end]) for path in paths}


def load(run_dirs: Sequence[str]) -> list[Run]:
  """Reads runs from directories; raises UserError if one has no data."""
  return [_load(run_dir, label)
          for run_dir, label in zip(run_dirs, labels(run_dirs))]


def _load(run_dir: str, label: str) -> Run:
  config_path = gin_config.config_path(run_dir)
  if not files.exists(config_path):
    raise config_lib.UserError(
        f'{run_dir} holds no config.gin; is it the directory of a run?')
  config = gin_config.load(config_path)
  run = Run(label, levels_lib.expand(config.environment.level),
            config.agent.torso, metrics.read_rows(run_dir), _results(run_dir))
  if not (run.rows or run.results):
    raise config_lib.UserError(
        f'{run_dir} has neither rows in its {metrics.FILE_NAME} nor an '
        'evaluation yet; let it train')
  return run


def _results(run_dir: str) -> Results:
  """Reads the evaluation that counts for each level of a run.

  Of several results of a level, one by the paper's protocol counts before
  others, then that after most training, then that of most games.
  """
  found: dict[str, Mapping[str, Any]] = {}
  for name in fnmatch.filter(files.names(run_dir), 'evaluation*.json'):
    path = os.path.join(run_dir, name)
    for level, result in suite_results.read_levels(path).items():
      found[level] = max(found.get(level, result), result,
                         key=lambda r: (not deviation(r), r['trained_frames'],
                                        r['episodes']))
  return found


def deviation(result: Mapping[str, Any]) -> str:
  """Returns what of an evaluation was not by the protocol, or ''."""
  return (' (most probable actions)' * result.get('deterministic', False) +
          ' (interrupted)' * result.get('interrupted', False))


def _agents(runs: Sequence[Run]) -> dict[str, Results]:
  """Groups results by agent: each run, or all experts together.

  Several runs, each trained and evaluated on a different level, are experts as
  in tables 3 and 4 of the paper.
  """
  evaluated = [run for run in runs if run.results]
  together = {level: result for run in evaluated
              for level, result in run.results.items()}
  if len(together) == len(evaluated) > 1 and all(
      len(run.levels) == len(run.results) == 1 for run in evaluated):
    return {'experts': together}
  return {run.label: run.results for run in evaluated}


def scores_by_suite(
    runs: Sequence[Run]) -> dict[str, dict[str, suite_lib.Scores]]:
  """Groups mean raw returns by suite, agent (see `_agents`) and level."""
  found: dict[str, dict[str, suite_lib.Scores]] = {}
  for agent, results in _agents(runs).items():
    agent += ''.join(sorted({deviation(result) for result in results.values()}))
    for name, suite in levels_lib.SUITES.items():
      # A level's variant for training stands for it if only that was played.
      scores = {suite.scored_level(level): results[level]['mean']
                for level in (*suite.train_levels, *suite.levels)
                if level in results}
      if scores:
        found.setdefault(name, {})[agent] = {
            level: scores[level] for level in suite.levels if level in scores}
  return found
