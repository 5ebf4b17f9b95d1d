"""Comparison of populations and sweeps of the same settings, as in figure 5."""

import operator
import os
from typing import NamedTuple

import matplotlib.figure
import numpy as np

from impala_tf import config as config_lib
from impala_tf.plots import intervals
from impala_tf.plots import pictures
from impala_tf.plots import populations
from impala_tf.plots import suite_tables
from impala_tf.runs import metrics
from impala_tf.runs import sweep_directory
from impala_tf.sweeps import results as results_lib

_POINTS = 200
_CONFIDENCE = 0.95

Pairs = dict[str, list['Pair']]  # By name of task and variant.


class Pair(NamedTuple):
  """A population and a sweep of the same task, variant and seed."""
  seed: int
  population: str  # Its name.
  members: list[results_lib.Result]  # Finished ones, the best first.
  runs: list[results_lib.Result]  # Likewise of the sweep.

  @property
  def returns(self) -> np.ndarray:
    """Final returns, float [2, 2]: best and mean of members; those of runs."""
    members, runs = (
        np.array([result.final_return for result in results], np.float64)
        for results in (self.members, self.runs))
    return np.array([[members[0], members.mean()], [runs[0], runs.mean()]])


def pairs(population_dir: str, sweep_dir: str) -> Pairs:
  """Pairs populations with sweeps of the same task, variant and seed.

  Raises UserError if they have no finished task in common.
  """
  runs = _finished(sweep_dir)
  found: Pairs = {}
  for key, members in _finished(population_dir).items():
    if key in runs:
      task, variant, seed = key
      title = task if variant == 'default' else f'{task}, {variant}'
      found.setdefault(title, []).append(Pair(
          seed, f'{task}/{variant}/seed_{seed}', members, runs[key]))
  if not found:
    raise config_lib.UserError(
        f'{population_dir} and {sweep_dir} have no finished task in common; '
        'let them train, or name directories of the same file')
  return found


def _finished(path: str) -> dict[tuple, list[results_lib.Result]]:
  """Groups finished runs by task, variant and seed, the best first."""
  found: dict[tuple, list[results_lib.Result]] = {}
  for result in sweep_directory.read_results(path):
    run, final = result.run, result.final_return
    if result.status == results_lib.FINISHED and final is not None:
      found.setdefault((run.task, run.variant, run.seed), []).append(result)
  for results in found.values():
    results.sort(key=operator.attrgetter('final_return'), reverse=True)
  return found


def table(found: Pairs) -> str:
  """Returns a table of pairs' returns, with each task's mean and t interval."""
  rows = []
  for title, seeds in found.items():
    returns = np.array([pair.returns for pair in seeds])
    differences = returns[:, 0] - returns[:, 1]
    for pair, (best, mean) in zip(seeds, differences):
      (member, members), (run, runs) = pair.returns
      rows.append([
          title, str(pair.seed), f'{member:.2f}', pair.members[0].run.setting,
          f'{run:.2f}', pair.runs[0].run.setting, f'{best:+.2f}',
          f'{members:.2f} ({len(pair.members)})',
          f'{runs:.2f} ({len(pair.runs)})', f'{mean:+.2f}'])
    band = intervals.t_band(differences, [''] * len(seeds), _CONFIDENCE)
    texts = [f'{centre:+.2f}' for centre in band.centre]
    if band.low is not None and band.high is not None:
      texts = [f'{text} ({low:+.2f} to {high:+.2f})'
               for text, low, high in zip(texts, band.low, band.high)]
    (member, members), (run, runs) = returns.mean(axis=0)
    rows.append([f'**{title}**', 'mean', f'{member:.2f}', '', f'{run:.2f}', '',
                 texts[0], f'{members:.2f}', f'{runs:.2f}', texts[1]])
  return suite_tables.table(
      ['task', 'seed', 'best member', 'member', 'best run', 'setting',
       'difference', 'all members', 'all runs', 'difference'], rows)


def draw(population_dir: str, sweep_dir: str,
         found: Pairs) -> matplotlib.figure.Figure:
  """Draws returns of the best member's ancestry and of the best run."""
  by_label = {p.label: p for p in populations.load(population_dir)}

  def of_member(pair):
    population = by_label.get(pair.population)
    best = pair.members[0].run.setting
    if population is None or best not in population.members:
      return []  # It was deleted.
    curves = {name: _curve(population_dir, f'{pair.population}/{name}')
              for name in population.members}
    return populations.backtracked(
        populations.ancestry(population.events, best), curves)

  figure, panels = pictures.panels(len(found), height=3.2)
  for axes, (title, seeds) in zip(panels, found.items()):
    for label, points_of in (
        ('population', of_member),
        ('sweep', lambda pair: _curve(sweep_dir, pair.runs[0].run.name))):
      lines = [points for pair in seeds if (points := points_of(pair))]
      if lines:
        x, values = intervals.on_common_axis(lines, _POINTS)
        pictures.draw_band(axes, x, intervals.band(
            values, [''] * len(lines), intervals.mean, _CONFIDENCE),
                           label=label)
    axes.set_title(title)
    axes.set_ylabel('return of the best')
    pictures.label_x(axes, 'frames')
  pictures.share_legend(figure)
  return figure


def _curve(path: str, run: str) -> list[tuple[float, float]]:
  rows = metrics.read_rows(os.path.join(path, 'runs', run))
  return metrics.points(rows, 'episode_return')
