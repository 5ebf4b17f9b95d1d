"""Markdown tables of the analysis in the paper's form.

Pure functions from results of a sweep to text.
"""

import itertools
import math
from typing import Dict, Iterable, List, Sequence

from impala_tf.sweeps import results as results_lib

Results = Sequence[results_lib.Result]

BEST = 3  # Number of settings that table 2 and figure E.3 average over.
LAGS = (0, 1, 10, 100, 500)  # Policy lags of figure E.1, in updates.
METHODS = {'vtrace': 'V-trace', 'one_step_is': '1-Step',
           'epsilon': 'ε-correction', 'none': 'No-correction'}
REPLAY = {'': 'Without replay', '_replay': 'With replay'}

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


def tasks_of(results: Results) -> List[str]:
  """Returns the tasks of results, in the sweep's order."""
  return list(dict.fromkeys(r.run.task for r in results))


def number(value: float, digits: int) -> str:
  """Returns a number as text; a dash for NaN."""
  return '–' if math.isnan(value) else f'{value:.{digits}f}'


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  """Returns a table of these cells."""
  lines = [header, ['---'] * len(header), *rows]
  return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def _by_correction(tasks: Sequence[str], value, digits: int) -> str:
  """Returns a table in the form of table 2.

  Args:
    tasks: names of the columns.
    value: function of variant and task to the number of a cell.
    digits: decimal places.
  """
  rows = []
  for suffix, title in REPLAY.items():
    rows.append([f'**{title}**'] + [''] * len(tasks))
    for method, name in METHODS.items():
      rows.append([name] + [number(value(method + suffix, task), digits)
                            for task in tasks])
  return markdown(['', *tasks], rows)


def table_2(results: Results) -> str:
  """Returns mean final returns of the best settings, and the paper's table."""

  def ours(variant, task):
    return results_lib.best_mean(
        results_lib.select(results, task, variant), BEST)

  def papers(variant, task):
    return _PAPER_TABLE_2[variant][_PAPER_TASKS.index(task)]

  return (f'Average final return over the {BEST} best settings:\n\n'
          f'{_by_correction(tasks_of(results), ours, 2)}\n\n'
          'The same of the paper (table 2), on DeepMind Lab:\n\n'
          f'{_by_correction(_PAPER_TASKS, papers, 1)}')


def figure_e1(results: Results) -> str:
  """Returns a table of mean final returns by method and policy lag."""
  rows = []
  for task, (method, name) in itertools.product(
      tasks_of(results), METHODS.items()):
    rows.append([task, name] + [
        number(results_lib.rank_area(results_lib.select(
            results, task, f'{method}_lag_{lag}')), 2) for lag in LAGS])
  return ('Mean final return, by policy lag in updates (at lag 0 all methods '
          'are on-policy):\n\n' +
          markdown(['task', 'method', *map(str, LAGS)], rows))


def figure_e2(results: Results) -> str:
  """Returns a table of areas under the ranked returns, with replay."""
  tasks = tasks_of(results)
  rows = [[name] + [
      number(results_lib.rank_area(results_lib.select(
          results, task, f'{method}_replay')), 2) for task in tasks]
          for method, name in METHODS.items()]
  return ('Area under return against rank (the mean over all settings), with '
          'replay:\n\n' + markdown(['', *tasks], rows))


def figure_e3(results: Results) -> str:
  """Returns a table of v_{s+1} against V(x_{s+1}), best and all settings."""
  rows = []
  for task in tasks_of(results):
    row = [task]
    for variant in 'vtrace', 'vtrace_value':
      selected = results_lib.select(results, task, variant)
      row += [number(results_lib.best_mean(selected, BEST), 2),
              number(results_lib.rank_area(selected), 2)]
    rows.append(row)
  return ('Mean final return, q_s bootstrapped from v_{s+1} or from '
          'V(x_{s+1}):\n\n' + markdown(
              ['task', f'v_{{s+1}}, best {BEST}', 'v_{s+1}, all',
               f'V(x_{{s+1}}), best {BEST}', 'V(x_{s+1}), all'], rows))


def replay(results: Results) -> str:
  """Returns a table with and without replay: mean and range of seeds."""
  rows = []
  for task, variant in itertools.product(
      tasks_of(results), dict.fromkeys(r.run.variant for r in results)):
    ended = [r for r in results_lib.select(results, task, variant)
             if r.final_return is not None]
    if not ended:
      rows.append([task, variant, '0', '–', '–', '–', '–'])
      continue
    finals = [r.final_return for r in ended]
    rows.append([
        task, variant, str(len(ended)), f'{max(r.frames for r in ended):,}',
        number(sum(finals) / len(finals), 2),
        f'{min(finals):.2f} to {max(finals):.2f}',
        number(sum(r.area for r in ended) / len(ended), 2)])
  return ('The same frames with and without replay:\n\n' + markdown(
      ['task', '', 'seeds', 'frames', 'final return', 'from, to',
       'mean over training'], rows))


def best_agents(results: Results) -> str:
  """Returns a table of the best agent's final return: mean, range of seeds."""
  rows = []
  for task, variant in itertools.product(
      tasks_of(results), dict.fromkeys(r.run.variant for r in results)):
    selected = [r for r in results_lib.select(results, task, variant)
                if r.final_return is not None]
    seeds: Dict[int, List[float]] = {}
    for r in selected:
      seeds.setdefault(r.run.seed, []).append(r.final_return)
    if not seeds:
      rows.append([task, variant, *['–'] * 6])
      continue
    best = [max(finals) for finals in seeds.values()]
    frames = {r.frames for r in selected}
    rows.append([
        task, variant, str(len(seeds)), str(max(map(len, seeds.values()))),
        f'{max(frames):,}', number(sum(best) / len(best), 2),
        f'{min(best):.2f} to {max(best):.2f}',
        number(results_lib.rank_area(selected), 2)])
  return ('Final return of the best agent of each seed, and of all agents:'
          '\n\n' + markdown(
              ['task', 'variant', 'seeds', 'agents', 'frames of each',
               'best agent', 'from, to', 'all agents'], rows))
