"""Differences between the variants of a sweep, in pairs of runs.

Both runs of a pair have the same setting and seed. A variant's best settings
are chosen by the numbers that are then compared, which favours variants that
vary; so all settings count here. Intervals are of Student's t, since the
bootstrap's are too narrow for the few seeds of a setting.
"""

from typing import Dict, List, Optional, Tuple

import numpy as np

from impala_tf.sweeps import results as results_lib
from launch.analysis import tables
from launch.report import intervals


def band(results: tables.Results, task: str, variant: str, other: str
         ) -> Optional[intervals.Band]:
  """Computes the mean difference of the final returns of two variants.

  Args:
    results: finished runs of a sweep.
    task: name of the task.
    variant: name of the variant.
    other: name of the variant whose returns are taken away from its.

  Returns:
    Arrays [1], the mean over settings, with an interval where each setting has
    two pairs or more; None where no run has a partner.
  """
  returns = {(r.run.setting, r.run.seed): r.final_return
             for r in results_lib.select(results, task, other)}
  pairs = [(r, partner) for r in results_lib.select(results, task, variant)
           if (partner := returns.get((r.run.setting, r.run.seed))) is not None
           and r.final_return is not None]
  if not pairs:
    return None
  return intervals.t_band(
      np.array([[r.final_return - partner] for r, partner in pairs]),
      [r.run.setting for r, _ in pairs], tables.CONFIDENCE)


def _comparisons(results: tables.Results) -> Dict[str, List[Tuple[str, ...]]]:
  """Lists what is compared with what: (words, variant, other) by heading."""
  arms = tables.arms_of(results)
  found = {}
  for suffix, title in arms.items():
    found[f'{title}: minus V-trace'] = [
        (name, method + suffix, 'vtrace' + suffix)
        for method, name in tables.METHODS.items() if method != 'vtrace']
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


def _cell(found: Optional[intervals.Band]) -> str:
  """Returns a difference as text, bold where its interval leaves zero out."""
  text = tables.cell(found)
  if found is None or found.low is None or found.low[0] <= 0 <= found.high[0]:
    return text
  return f'**{text}**'


def of_corrections(results: tables.Results) -> str:
  """Returns a table of differences between methods, and between arms."""
  return _table(results, _comparisons(results))


def of_variants(results: tables.Results) -> str:
  """Returns a table of differences between each two variants."""
  variants = list(dict.fromkeys(r.run.variant for r in results))
  return _table(results, {
      f'minus {other}': [(variant, variant, other)
                         for variant in variants[i + 1:]]
      for i, other in enumerate(variants[:-1])})


def _table(results: tables.Results,
           comparisons: Dict[str, List[Tuple[str, ...]]]) -> str:
  """Returns a table of (words, variant, other) by heading, a column a task."""
  tasks = tables.tasks_of(results)
  rows = []
  for heading, compared in comparisons.items():
    rows.append([f'*{heading}*'] + [''] * len(tasks))
    rows += [[name] + [_cell(band(results, task, variant, other))
                       for task in tasks]
             for name, variant, other in compared]
  return ('Mean difference of final returns over all settings and seeds, in '
          f'pairs, with the {tables.CONFIDENCE:.0%} t interval; bold '
          'where that leaves zero out, level elsewhere:\n\n' +
          tables.markdown(['', *tasks], rows))
