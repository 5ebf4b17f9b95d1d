"""Scores of runs in the formats of the packages rliable and marl-eval."""

from typing import Any, Sequence

from impala_tf import config as config_lib
from impala_tf.plots import groups
from impala_tf.plots import intervals
from impala_tf.plots import runs as runs_lib
from impala_tf.suites import levels as levels_lib

_STEPS = 100  # Of a curve.


def _by_algorithm(run_dirs: Sequence[str]
                  ) -> dict[str, dict[str, dict[int, runs_lib.Run]]]:
  """Reads runs by algorithm, level, seed; raises UserError for duplicates."""
  found: dict[str, dict[str, dict[int, runs_lib.Run]]] = {}
  runs = dict(zip(run_dirs, runs_lib.load(run_dirs)))
  for name, members in groups.alike(
      run_dirs, (groups.SEED, groups.LEVEL)).items():
    for run_dir in members:
      run, values = runs[run_dir], groups.values_of(run_dir)
      wanted = values['ExperimentConfig.total_frames']
      if run.rows and (seen := run.rows[-1]['frames']) < wanted:
        print(f'note: {run_dir} has learned from {seen:,} of {wanted:,} frames')
      seed = values[groups.SEED]
      seeds = found.setdefault(name, {}).setdefault(','.join(run.levels), {})
      if seed in seeds:
        raise config_lib.UserError(
            f'{run_dir} and another run have the seed {seed} and the same '
            'config; name one of them')
      seeds[seed] = run
  # These packages split names at commas.
  return {name.replace(',', ';'): levels for name, levels in found.items()}


def _score(run: runs_lib.Run, is_normalised: bool = False) -> float:
  """Returns a run's score on its one level, or that of a suite normalised.

  It is that of an evaluation by the protocol, else of the last training games.
  """
  if len(run.levels) > 1:
    raise config_lib.UserError(
        f'{run.label} was trained on {len(run.levels)} levels; name runs of '
        'one level each')
  level, = run.levels
  suite = levels_lib.suite_of(level)
  played = level, suite.scored_level(level) if suite else level
  scores = [result['mean'] for name, result in run.results.items()
            if name in played and not runs_lib.deviation(result)]
  scores = scores or [value for _, value in run.curve(level)]
  if not scores:
    raise config_lib.UserError(
        f'{run.label} has neither an evaluation nor a return of {level} yet; '
        'let it train')
  return (suite.human_normalised_score(level, scores[-1])
          if suite and is_normalised else scores[-1])


def rliable(run_dirs: Sequence[str]) -> dict[str, list[list[float]]]:
  """Returns a matrix of scores for each algorithm, with a row for each seed.

  Columns are levels, sorted by name (Agarwal et al. 2021); scores of a suite's
  are human-normalised. Raises UserError unless all algorithms have the same
  levels, and all levels of an algorithm as many seeds.
  """
  matrices, algorithms = {}, _by_algorithm(run_dirs)
  if len(set(map(frozenset, algorithms.values()))) > 1:
    raise config_lib.UserError(
        f'not all of these are on the same levels: {", ".join(algorithms)}; '
        'name only runs that are')
  for name, levels in algorithms.items():
    columns = [[_score(levels[level][seed], True)
                for seed in sorted(levels[level])] for level in sorted(levels)]
    if len(set(map(len, columns))) > 1:
      raise config_lib.UserError(
          f'{name} has not as many seeds on each level: ' + ', '.join(
              f'{len(levels[level])} on {level}' for level in sorted(levels)))
    matrices[name] = [list(row) for row in zip(*columns)]
  return matrices


def marl_eval(run_dirs: Sequence[str]) -> dict[str, Any]:
  """Returns curves by domain, task, algorithm and seed (Gorsane et al. 2022).

  Steps are environment frames, the same for all runs of a level: marl-eval
  takes those of the first. The absolute metric is that of `_score`.
  """
  contents: dict[str, Any] = {}
  algorithms = _by_algorithm(run_dirs)
  for level in sorted(set().union(*algorithms.values())):
    runs = [(name, seed, run, _score(run))
            for name, levels in algorithms.items()
            for seed, run in sorted(levels.get(level, {}).items())]
    curves = [run.curve(level) for *_, run, _ in runs]
    common = intervals.on_common_axis(curves, _STEPS) if all(curves) else None
    if common is None or not common[0].size:
      raise config_lib.UserError(
          f'runs of {level} have no frames with returns in common; name others')
    x, values = common
    domain, _, task = level.rpartition('/')
    of_task = contents.setdefault(domain or level, {}).setdefault(task, {})
    for (name, seed, _, score), returns in zip(runs, values):
      of_task.setdefault(name, {})[f'seed_{seed}'] = {
          **{f'step_{i}': {'step_count': round(frames), 'return': [value]}
             for i, (frames, value) in enumerate(zip(x, returns.tolist()))},
          'absolute_metrics': {'return': [score]}}
  return contents


FORMATS = {'rliable': rliable, 'marl-eval': marl_eval}
