"""Differences between the variants of a sweep, in pairs of runs.

Both runs of a pair have the same setting and seed. A variant's best settings
are chosen by the numbers that are then compared, which favours variants that
vary; so all settings count here. If the best were chosen by another seed, as
`best` does, each variant has its best setting. Intervals are of Student's t,
since the bootstrap's are too narrow for the few seeds of a setting.
"""

import itertools

import numpy as np

from impala_tf.plots import intervals
from impala_tf.sweeps import results as results_lib
from lab.figures import tables

_TITLES = {'final_return': 'final returns',
           'area': 'returns over all of training'}
_OVER_ALL = 'all settings and seeds'
_AND_INTERVAL = (f'with the {tables.CONFIDENCE:.0%} t interval; bold where '
                 'that leaves zero out, level elsewhere')


def band(results: tables.Results, task: str, variant: str, other: str,
         name: str = 'final_return') -> intervals.Band | None:
  """Computes the mean difference of returns, `variant` minus `other`.

  `name` is the attribute of `Result` that is compared. Returns arrays [1], the
  mean over settings, with an interval if each setting has two pairs or more;
  None if no run has a partner.
  """
  first, second = (
      {(r.run.setting, r.run.seed): value
       for r in results_lib.select(results, task, each)
       if (value := getattr(r, name)) is not None}
      for each in (variant, other))
  pairs = [key for key in first if key in second]
  if not pairs:
    return None
  return intervals.t_band(
      np.array([[first[key] - second[key]] for key in pairs]),
      [setting for setting, _ in pairs], tables.CONFIDENCE)


def _minus_vtrace(suffix: str) -> list[tuple[str, ...]]:
  """Lists comparisons of the other methods with V-trace, for one suffix."""
  return [(name, method + suffix, 'vtrace' + suffix)
          for method, name in tables.METHODS.items() if method != 'vtrace']


def _comparisons(results: tables.Results) -> dict[str, list[tuple[str, ...]]]:
  """Returns the pairs to compare: (words, variant, other), by heading."""
  arms = tables.arms_of(results)
  found = {}
  for suffix, title in arms.items():
    found[f'{title}: minus V-trace'] = _minus_vtrace(suffix)
    found[f'{title}: minus ε-correction'] = [
        (tables.METHODS[method], method + suffix, 'epsilon' + suffix)
        for method in ('one_step_is', 'none')]
  for first, second, heading in (
      ('_replay', '', 'With replay minus without: equal frames'),
      ('_equal_updates', '', 'Without replay: equal updates minus half'),
      ('_replay', '_equal_updates',
       'With replay minus without: equal updates')):
    if first in arms and second in arms:
      found[heading] = [(name, method + first, method + second)
                        for method, name in tables.METHODS.items()]
  if any(r.run.variant == 'vtrace_value' for r in results):  # Figure E.3.
    found['Without replay: V(x_{s+1}) minus v_{s+1}'] = [
        ('V-trace', 'vtrace_value', 'vtrace')]
  return found


def _cell(found: intervals.Band | None) -> str:
  """Returns a difference as text, bold where its interval leaves zero out."""
  text = tables.cell(found)
  if found is None or found.low is None or found.high is None:
    return text
  return text if found.low[0] <= 0 <= found.high[0] else f'**{text}**'


def of_corrections(results: tables.Results) -> str:
  """Returns a table of differences between methods, and between arms."""
  return _table(results, _comparisons(results))


def of_lags(results: tables.Results) -> str:
  """Returns a table of differences from V-trace at the lags of figure E.1.

  Without lag the methods are one. There is no table of a single method.
  """
  variants = tables.variants_of(results)
  comparisons = {}
  for lag in tables.LAGS:
    compared = _minus_vtrace(f'_lag_{lag}')
    if lag and any(variant in variants for _, variant, _ in compared):
      comparisons[f'Lag of {lag}: minus V-trace'] = compared
  return _table(results, comparisons) if comparisons else ''


def of_variants(results: tables.Results, over: str = _OVER_ALL) -> str:
  """Returns tables of differences between variants; '' if there is only one."""
  comparisons: dict[str, list[tuple[str, ...]]] = {}
  for other, variant in _each_two(results):
    comparisons.setdefault(f'minus {other}', []).append(
        (variant, variant, other))
  if not comparisons:
    return ''
  return (f'{_table(results, comparisons, over=over)}\n\n'
          f"{_table(results, comparisons, 'area', over)}")


def of_agents(results: tables.Results) -> str:
  """Returns a table of differences between variants whose agents share.

  The agents of a seed are one experiment: pairs are of seeds. There is no table
  of a single variant.
  """
  rows = []
  for task, (other, variant) in itertools.product(
      tables.tasks_of(results), _each_two(results)):
    first, second = (tables.agents_by_seed(results, task, each)
                     for each in (variant, other))
    seeds = [seed for seed in first if seed in second]
    row = [task, variant, other]
    for summary in tables.OF_AGENTS.values():
      pairs = [[summary(first[seed]) - summary(second[seed])] for seed in seeds]
      row.append(_cell(intervals.t_band(
          np.array(pairs), [''] * len(pairs), tables.CONFIDENCE)
                       if pairs else None))
    rows.append(row)
  if not rows:
    return ''
  return (f'Mean difference in pairs of a seed, {_AND_INTERVAL}:\n\n' +
          tables.markdown(['task', 'variant', 'minus', *tables.OF_AGENTS],
                          rows))


def _each_two(results: tables.Results) -> list[tuple[str, str]]:
  """Returns all pairs of variants, in the sweep's order."""
  return list(itertools.combinations(tables.variants_of(results), 2))


def _table(results: tables.Results,
           comparisons: dict[str, list[tuple[str, ...]]],
           name: str = 'final_return', over: str = _OVER_ALL) -> str:
  """Returns a table of differences: a row a comparison, a column a task."""
  tasks = tables.tasks_of(results)
  rows = []
  for heading, compared in comparisons.items():
    rows.append([f'*{heading}*'] + [''] * len(tasks))
    rows += [[words] + [_cell(band(results, task, variant, other, name))
                        for task in tasks]
             for words, variant, other in compared]
  return (f'Mean difference of {_TITLES[name]} over {over}, in pairs, '
          f'{_AND_INTERVAL}:\n\n' +
          tables.markdown(['', *tasks], rows))
