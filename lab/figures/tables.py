"""Markdown tables of the analysis in the paper's form.

Pure functions from results of a sweep to text. They raise UserError for a sweep
that has no variant of a table's.
"""

import itertools
import math
import statistics
from typing import Callable, Iterable, Sequence

import numpy as np

from impala_tf import config as config_lib
from impala_tf.plots import intervals
from impala_tf.sweeps import results as results_lib

Results = Sequence[results_lib.Result]

BEST = 3  # Number of settings that table 2 and figure E.3 average over.
LAGS = (0, 1, 10, 100, 500)  # Policy lags of figure E.1, in updates.
METHODS = {'vtrace': 'V-trace', 'one_step_is': '1-Step',
           'epsilon': 'ε-correction', 'none': 'No-correction'}
# Names of variants are those of methods with these after them. Replayed unrolls
# make up half of a batch, so that at equal frames there are twice the updates;
# the second arm has as many by batches of half the size.
ARMS = {'': 'Without replay',
        '_equal_updates': 'Without replay, equal updates',
        '_replay': 'With replay'}
CONFIDENCE = 0.95  # Of all intervals here.

# Espeholt et al. 2018, table 2.
_PAPER_TASKS = ('rooms_watermaze', 'rooms_keys_doors_puzzle',
                'lasertag_three_opponents_small',
                'explore_goal_locations_small', 'seekavoid_arena_01')
_PAPER_TABLE_2 = {
    'vtrace': (46.8, 32.9, 31.3, 229.2, 43.8),
    'one_step_is': (51.8, 35.9, 25.4, 215.8, 43.7),
    'epsilon': (44.2, 27.3, 4.3, 107.7, 41.5),
    'none': (40.3, 29.1, 5.0, 94.9, 16.1),
    'vtrace_replay': (47.1, 35.8, 34.5, 250.8, 46.9),
    'one_step_is_replay': (54.7, 34.4, 26.4, 204.8, 41.6),
    'epsilon_replay': (30.4, 30.2, 3.9, 101.5, 37.6),
    'none_replay': (35.0, 21.1, 2.8, 85.0, 11.2),
}


def tasks_of(results: Results) -> list[str]:
  """Returns the tasks of results, in the sweep's order."""
  return list(dict.fromkeys(r.run.task for r in results))


def variants_of(results: Results) -> list[str]:
  """Returns the variants of results, in the sweep's order."""
  return list(dict.fromkeys(r.run.variant for r in results))


def number(value: float, digits: int) -> str:
  """Returns a number as text; a dash for NaN."""
  return '–' if math.isnan(value) else f'{value:.{digits}f}'


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  """Returns a Markdown table of these cells."""
  lines = [header, ['---'] * len(header), *rows]
  return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def arms_of(results: Results) -> dict[str, str]:
  """Returns the `ARMS` in results; raises UserError if there are none."""
  variants = {r.run.variant for r in results}
  arms = {suffix: title for suffix, title in ARMS.items()
          if any(method + suffix in variants for method in METHODS)}
  if not arms:
    raise config_lib.UserError(
        'no variant of this sweep is a correction, as those of '
        'configs/sweeps/corrections.gin are; choose another display')
  return arms


def band_of_groups(values: np.ndarray, groups: Sequence[str],
                   aggregate: Callable[[np.ndarray], np.ndarray],
                   confidence: float | None = CONFIDENCE) -> intervals.Band:
  """Aggregates the means of groups of runs, with a bootstrap interval.

  `values` [N, P] are of runs, those of a group in a row; runs are drawn within
  each group. `aggregate` takes means [..., G, P] of groups to [..., P].
  """
  sizes = [len(list(group)) for _, group in itertools.groupby(groups)]
  starts = np.cumsum([0, *sizes[:-1]])  # Of each group.
  return intervals.band(values, groups, lambda drawn: aggregate(
      np.add.reduceat(drawn, starts, axis=-2) / np.vstack(sizes)), confidence)


def best_band(results: Results, num_settings: int) -> intervals.Band | None:
  """Computes the mean of the best settings with a bootstrap interval.

  Seeds are drawn within each setting, and the drawn seeds choose the best
  settings. `results` are of one task and variant. Returns arrays [1], without
  an interval if settings have one seed; None without runs.
  """
  returns = results_lib.seed_returns(results)
  if not returns:
    return None
  return band_of_groups(
      np.array([list(itertools.chain(*returns.values()))]).T,
      [name for name, values in returns.items() for _ in values],
      lambda means: intervals.mean(
          np.sort(means, axis=-2)[..., -num_settings:, :]))


def mean_band(results: Results) -> intervals.Band | None:
  """Computes the mean over all settings, as `best_band` over the best."""
  return best_band(results, len(results))


def cell(band: intervals.Band | None) -> str:
  """Returns a number with its interval, if it has one, as text.

  With two digits, or three if both ends would look the same.
  """
  if band is None:
    return '–'
  if band.low is None or band.high is None:
    return f'{band.centre[0]:.2f}'
  (low,), (high,) = band.low, band.high
  digits = 3 if low < high and round(low, 2) == round(high, 2) else 2
  return f'{band.centre[0]:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})'


def _by_correction(tasks: Sequence[str], arms: dict[str, str], text_of) -> str:
  """Returns a table in the form of table 2, of `text_of(variant, task)`."""
  rows = []
  for suffix, title in arms.items():
    rows.append([f'**{title}**'] + [''] * len(tasks))
    for method, name in METHODS.items():
      rows.append([name] + [text_of(method + suffix, task) for task in tasks])
  return markdown(['', *tasks], rows)


def table_2(results: Results) -> str:
  """Returns mean final returns of the best settings, and the paper's table."""

  def ours(variant, task):
    return cell(best_band(results_lib.select(results, task, variant), BEST))

  def papers(variant, task):
    return str(_PAPER_TABLE_2[variant][_PAPER_TASKS.index(task)])

  return (f'Average final return over the {BEST} best settings'
          f'{_of_seeds(results)}:\n\n'
          f'{_by_correction(tasks_of(results), arms_of(results), ours)}\n\n'
          'The same of the paper (table 2), on DeepMind Lab:\n\n' +
          _by_correction(_PAPER_TASKS, {
              suffix: ARMS[suffix] for suffix in ('', '_replay')}, papers))


def _of_seeds(results: Results) -> str:
  """Returns a phrase on a table's bootstrap intervals; '' with one seed."""
  num_seeds = len({r.run.seed for r in results})
  if num_seeds < 2:
    return ''
  return (f', and the {CONFIDENCE:.0%} bootstrap interval of up to '
          f'{num_seeds} seeds')


def figure_e1(results: Results) -> str:
  """Returns a table of mean final returns by method and policy lag."""
  if not any('_lag_' in r.run.variant for r in results):
    raise config_lib.UserError(
        'no variant of this sweep has a controlled lag, as those of '
        'configs/sweeps/figure_e1.gin have; choose another display')
  rows = []
  for task, (method, name) in itertools.product(
      tasks_of(results), METHODS.items()):
    selected = [results_lib.select(results, task, f'{method}_lag_{lag}')
                for lag in LAGS]
    rows.append([task, name] + [cell(mean_band(runs)) for runs in selected])
  return ('Mean final return, by policy lag in updates (at lag 0 all methods '
          f'are on-policy){_of_seeds(results)}:\n\n' +
          markdown(['task', 'method', *map(str, LAGS)], rows))


def figure_e2(results: Results) -> str:
  """Returns a table of areas under the ranked returns, a block an arm."""

  def area(variant, task):
    return cell(mean_band(results_lib.select(results, task, variant)))

  return ('Area under return against rank (the mean over all settings)'
          f'{_of_seeds(results)}:\n\n' + _by_correction(
              tasks_of(results), arms_of(results), area))


def figure_e3(results: Results) -> str:
  """Returns a table of v_{s+1} against V(x_{s+1}), best and all settings."""
  rows = []
  for task in tasks_of(results):
    row = [task]
    for variant in 'vtrace', 'vtrace_value':
      selected = results_lib.select(results, task, variant)
      row += [cell(best_band(selected, BEST)), cell(mean_band(selected))]
    rows.append(row)
  return ('Mean final return, q_s bootstrapped from v_{s+1} or from V(x_{s+1})'
          f'{_of_seeds(results)}:\n\n' + markdown(
              ['task', f'v_{{s+1}}, best {BEST}', 'v_{s+1}, all',
               f'V(x_{{s+1}}), best {BEST}', 'V(x_{s+1}), all'], rows))


def _most(results: Results, name: str) -> str:
  """Returns the largest value of attribute `name` among results, as text."""
  values = [value for r in results if (value := getattr(r, name)) is not None]
  return f'{max(values):,}' if values else '–'


def variants(results: Results) -> str:
  """Returns a table of returns by variant, beside frames and updates."""
  rows = []
  for task, variant in itertools.product(
      tasks_of(results), variants_of(results)):
    ended = [r for r in results_lib.select(results, task, variant)
             if r.final_return is not None]
    if not ended:
      rows.append([task, variant, '0', '–', '–', '–', '–'])
      continue
    rows.append([
        task, variant, str(len(ended)), _most(ended, 'frames'),
        _most(ended, 'updates'), cell(mean_band(ended)),
        cell(mean_band([r._replace(final_return=r.area) for r in ended]))])
  return ('Mean final return, and return over all of training'
          f'{_of_seeds(results)}:\n\n' + markdown(
              ['task', 'variant', 'runs', 'frames', 'updates', 'final return',
               'mean over training'], rows))


# Functions that sum up the agents of one seed in a number, by its title.
OF_AGENTS: dict[str, Callable[[Results], float]] = {
    'best agent': lambda agents: max(_returns(agents)),
    'all agents': lambda agents: statistics.fmean(_returns(agents)),
    'mean over training': lambda agents: statistics.fmean(
        r.area for r in agents if r.area is not None)}


def _returns(results: Results) -> list[float]:
  return [r.final_return for r in results if r.final_return is not None]


def agents_by_seed(results: Results, task: str, variant: str
                   ) -> dict[int, list[results_lib.Result]]:
  """Groups by seed the results of a task and variant that have a return."""
  seeds: dict[int, list[results_lib.Result]] = {}
  for r in results_lib.select(results, task, variant):
    if r.final_return is not None:
      seeds.setdefault(r.run.seed, []).append(r)
  return seeds


def best_agents(results: Results) -> str:
  """Returns a table of returns of the best agent of each seed, and of all."""
  rows = []
  for task, variant in itertools.product(
      tasks_of(results), variants_of(results)):
    groups = list(agents_by_seed(results, task, variant).values())
    if not groups:
      rows.append([task, variant, *['–'] * 7])
      continue
    selected = list(itertools.chain(*groups))
    rows.append([
        task, variant, str(len(groups)), str(max(map(len, groups))),
        _most(selected, 'frames'), _most(selected, 'updates'),
        *(cell(intervals.band(
            np.array([[summary(agents)] for agents in groups]),
            [''] * len(groups), intervals.mean, CONFIDENCE))
          for summary in OF_AGENTS.values())])
  return ('Final return of the best agent of each seed and of all agents, and '
          "all agents' return over all of training"
          f'{_of_seeds(results)}:\n\n' + markdown(
              ['task', 'variant', 'seeds', 'agents', 'frames of each',
               'updates of each', *OF_AGENTS], rows))
