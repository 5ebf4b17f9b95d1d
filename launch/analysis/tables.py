"""The analysis in numbers: Markdown tables in the paper's form.

Pure: results of a sweep in, text out.
"""

import itertools
import math
from typing import Iterable, List, Sequence

from impala_tf.sweeps import results as results_lib

Results = Sequence[results_lib.Result]

BEST = 3  # Settings that table 2 and figure E.3 average over.
LAGS = (0, 1, 10, 100, 500)  # Figure E.1, in updates.
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
  """In the sweep's order."""
  return list(dict.fromkeys(r.run.task for r in results))


def _number(value: float, digits: int) -> str:
  return '–' if math.isnan(value) else f'{value:.{digits}f}'


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  lines = [header, ['---'] * len(header), *rows]
  return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines)


def _by_correction(tasks: Sequence[str], value, digits: int) -> str:
  """Table 2's form; `value` is asked for each variant and task."""
  rows = []
  for suffix, title in REPLAY.items():
    rows.append([f'**{title}**'] + [''] * len(tasks))
    for method, name in METHODS.items():
      rows.append([name] + [_number(value(method + suffix, task), digits)
                            for task in tasks])
  return _markdown(['', *tasks], rows)


def table_2(results: Results) -> str:
  """Mean final return of the best three settings, and the paper's table."""

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
  """Mean final return by method and policy lag."""
  rows = []
  for task, (method, name) in itertools.product(
      tasks_of(results), METHODS.items()):
    rows.append([task, name] + [
        _number(results_lib.rank_area(results_lib.select(
            results, task, f'{method}_lag_{lag}')), 2) for lag in LAGS])
  return ('Mean final return, by policy lag in updates (at lag 0 all methods '
          'are on-policy):\n\n' +
          _markdown(['task', 'method', *map(str, LAGS)], rows))


def figure_e2(results: Results) -> str:
  """Area under the ranked returns, with replay."""
  tasks = tasks_of(results)
  rows = [[name] + [
      _number(results_lib.rank_area(results_lib.select(
          results, task, f'{method}_replay')), 2) for task in tasks]
          for method, name in METHODS.items()]
  return ('Area under return against rank (the mean over all settings), with '
          'replay:\n\n' + _markdown(['', *tasks], rows))


def figure_e3(results: Results) -> str:
  """v_{s+1} against V(x_{s+1}): best three and all settings."""
  rows = []
  for task in tasks_of(results):
    row = [task]
    for variant in 'vtrace', 'vtrace_value':
      own = results_lib.select(results, task, variant)
      row += [_number(results_lib.best_mean(own, BEST), 2),
              _number(results_lib.rank_area(own), 2)]
    rows.append(row)
  return ('Mean final return, q_s bootstrapped from v_{s+1} or from '
          'V(x_{s+1}):\n\n' + _markdown(
              ['task', f'v_{{s+1}}, best {BEST}', 'v_{s+1}, all',
               f'V(x_{{s+1}}), best {BEST}', 'V(x_{s+1}), all'], rows))


def replay(results: Results) -> str:
  """With and without replay: mean and range over seeds."""
  rows = []
  for task, variant in itertools.product(
      tasks_of(results), dict.fromkeys(r.run.variant for r in results)):
    own = [r for r in results_lib.select(results, task, variant)
           if r.final_return is not None]
    finals = [r.final_return for r in own]
    rows.append([
        task, variant, str(len(own)), f'{max(r.frames for r in own):,}',
        _number(sum(finals) / len(finals), 2),
        f'{min(finals):.2f} to {max(finals):.2f}',
        _number(sum(r.area for r in own) / len(own), 2)] if own else
                [task, variant, '0', '–', '–', '–', '–'])
  return ('The same frames with and without replay:\n\n' + _markdown(
      ['task', '', 'seeds', 'frames', 'final return', 'from, to',
       'mean over training'], rows))
