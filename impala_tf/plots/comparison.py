"""Populations beside sweeps of the same settings, in the form of figure 5."""

import os
import statistics
from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

import matplotlib.figure
import numpy as np

from impala_tf import config as config_lib
from impala_tf.pbt import lineage
from impala_tf.plots import curves
from impala_tf.plots import intervals
from impala_tf.plots import pictures
from impala_tf.plots import populations
from impala_tf.plots import suite_tables
from impala_tf.runs import sweep_directory
from impala_tf.sweeps import results as results_lib

_POINTS = 200
_CONFIDENCE = 0.95

Points = List[Tuple[float, float]]


class Pair(NamedTuple):
  """A population and its sweep: the best of each, and the mean of all.

  Attributes:
    title: name of task and variant.
    seed: seed of both.
    population: name of the population.
    member: result of the best member.
    run: result of the best run.
    members_mean: mean final return of all members.
    runs_mean: mean final return of all runs.
  """
  title: str
  seed: int
  population: str
  member: results_lib.Result
  run: results_lib.Result
  members_mean: float
  runs_mean: float


def is_sweep(path: str) -> bool:
  """Tells whether a directory is that of `launch/sweep.sh`."""
  return os.path.exists(os.path.join(path, sweep_directory.SWEEP.config_name))


def pairs(population_dir: str, sweep_dir: str) -> List[Pair]:
  """Pairs populations with sweeps of the same task, variant and seed.

  The best is the one with the highest final return, in both.

  Raises:
    UserError: where nothing of both is finished.
  """
  members, runs = _finished(population_dir), _finished(sweep_dir)
  found = []
  for key in members:
    if key in runs:
      task, variant, seed = key
      found.append(Pair(
          task if variant == 'default' else f'{task}, {variant}', seed,
          f'{task}/{variant}/seed_{seed}', _best(members[key]),
          _best(runs[key]), _mean(members[key]), _mean(runs[key])))
  if not found:
    raise config_lib.UserError(
        f'{population_dir} and {sweep_dir} have no finished task in common; '
        'let them train, or name directories of the same file')
  return found


def _best(results: Sequence[results_lib.Result]) -> results_lib.Result:
  return max(results, key=lambda result: result.final_return)


def _mean(results: Sequence[results_lib.Result]) -> float:
  return statistics.fmean(result.final_return for result in results)


def _finished(path: str) -> Dict[tuple, List[results_lib.Result]]:
  """Groups finished runs by task, variant and seed."""
  results_path = os.path.join(path, sweep_directory.RESULTS)
  if not os.path.exists(results_path):
    return {}
  found: Dict[tuple, List[results_lib.Result]] = {}
  with open(results_path, encoding='utf-8') as file:
    results = results_lib.from_csv(file.read())
  for result in results:
    key = (result.run.task, result.run.variant, result.run.seed)
    if result.status == results_lib.FINISHED and (
        result.final_return is not None):
      found.setdefault(key, []).append(result)
  return found


def table(found: Sequence[Pair]) -> str:
  """Returns a table with a line for each pair, and means of each task.

  Mean differences have the t interval of their pairs.
  """
  rows = [['task', 'seed', 'best member', 'member', 'best run', 'setting',
           'difference', 'all members', 'all runs', 'difference']]
  for title in dict.fromkeys(pair.title for pair in found):
    seeds = [pair for pair in found if pair.title == title]
    finals = [(pair.member.final_return, pair.run.final_return)
              for pair in seeds]
    means = [(pair.members_mean, pair.runs_mean) for pair in seeds]
    for pair, best, mean in zip(seeds, finals, means):
      rows.append([
          title, str(pair.seed), f'{best[0]:.2f}', pair.member.run.setting,
          f'{best[1]:.2f}', pair.run.run.setting, f'{best[0] - best[1]:+.2f}',
          *(f'{value:.2f}' for value in mean), f'{mean[0] - mean[1]:+.2f}'])
    member, run, *of_all = [f'{statistics.fmean(column):.2f}'
                            for column in (*zip(*finals), *zip(*means))]
    rows.append([f'**{title}**', 'mean', member, '', run, '',
                 _mean_difference(finals), *of_all, _mean_difference(means)])
  return suite_tables.table(rows)


def _mean_difference(finals: Sequence[Tuple[float, float]]) -> str:
  """Returns the mean of first minus second, with its interval if it has one."""
  band = intervals.t_band(
      np.array([[first - second] for first, second in finals]),
      [''] * len(finals), _CONFIDENCE)
  text = f'{band.centre[0]:+.2f}'
  if band.low is not None:
    text += f' ({band.low[0]:+.2f} to {band.high[0]:+.2f})'
  return text


def draw(population_dir: str, sweep_dir: str,
         found: Sequence[Pair]) -> matplotlib.figure.Figure:
  """Draws returns of the best member's ancestry and of the best run.

  Lines are means over seeds; bands are bootstrap intervals of 95 %.

  Args:
    population_dir: directory of the populations.
    sweep_dir: directory of the sweep.
    found: pairs of them.
  """
  by_label = {p.label: p for p in populations.load(population_dir)}

  def of_member(pair):
    population = by_label[pair.population]
    returns = {name: _returns(os.path.join(
        population_dir, 'runs', pair.population, name))
               for name in population.members}
    return lineage.backtracked(lineage.ancestry(
        population.events, pair.member.run.setting), returns)

  def of_run(pair):
    return _returns(os.path.join(sweep_dir, 'runs', pair.run.run.name))

  titles = list(dict.fromkeys(pair.title for pair in found))
  figure, panels = pictures.panels(len(titles), height=3.2)
  for axes, title in zip(panels, titles):
    seeds = [pair for pair in found if pair.title == title]
    for label, points_of in (('population', of_member), ('sweep', of_run)):
      _draw_band(axes, seeds, label, points_of)
    axes.set_title(title)
    axes.set_ylabel('return of the best')
    pictures.label_x(axes, 'frames')
  pictures.share_legend(figure)
  return figure


def _returns(run_dir: str) -> Points:
  return curves.points(curves.read_rows(run_dir), 'episode_return')


def _draw_band(axes, found: Sequence[Pair], label: str,
               points_of: Callable[[Pair], Points]) -> None:
  lines = [points for pair in found if (points := points_of(pair))]
  if lines:
    x, values = intervals.on_common_axis(lines, _POINTS)
    pictures.draw_band(axes, x, intervals.band(
        values, [''] * len(lines), intervals.mean, _CONFIDENCE), label=label)
