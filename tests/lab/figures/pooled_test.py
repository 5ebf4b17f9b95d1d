"""Comparisons over several tasks, with numbers that can be checked by hand."""

import numpy as np

from lab.figures import pooled
from tests.fixtures import sweep_results


def _results(returns):
  """Makes results from {(task, variant): returns of its seeds}."""
  return [sweep_results.result(variant, value, 'setting', seed, task)
          for (task, variant), values in returns.items()
          for seed, value in enumerate(values)]


_TWO_TASKS = _results({
    ('small', 'vtrace'): [1., 3.], ('small', 'none'): [-1., 1.],
    ('large', 'vtrace'): [300., 500.], ('large', 'none'): [100., 500.]})


def test_each_task_has_a_scale_of_its_own():
  values, strata = pooled.scores(_TWO_TASKS, 'vtrace')
  assert values.ravel().tolist() == [0.5, 1, 0.5, 1]
  assert strata == ['small/setting'] * 2 + ['large/setting'] * 2
  results = _results({('small', 'vtrace'): [1., None, 2.],  # None is no run.
                      ('large', 'vtrace'): [None]})
  assert pooled.scores(results, 'vtrace')[0].ravel().tolist() == [0, 1]


def test_table_has_the_mean_of_the_middle_half():
  table = pooled.table(_TWO_TASKS)
  # V-trace: of 0.5, 0.5, 1, 1 the middle half. No-correction: of 0, 0, 0.5, 1.
  assert '| V-trace | 0.75 (0.50 to 1.00) |' in table
  assert '| No-correction | 0.25 (0.00 to 0.75) |' in table
  assert '| 1-Step | – |' in table  # Not run.


def test_profile_is_the_share_of_runs_above_a_score():
  figure = pooled.profiles(_TWO_TASKS)
  line, = [line for line in figure.axes[0].get_lines()
           if line.get_label() == 'No-correction']
  scores, shares = line.get_data()
  np.testing.assert_allclose(
      [shares[np.searchsorted(scores, score)] for score in (0, 0.3, 0.7, 1)],
      [0.5, 0.5, 0.25, 0])
