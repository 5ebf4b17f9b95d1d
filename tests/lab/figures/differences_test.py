"""Differences between variants, with numbers that can be checked by hand."""

import pytest
from scipy import stats

from lab.figures import differences
from tests.fixtures import sweep_results


def _results(returns):
  """Makes results of one task from {(variant, setting, seed): return}.

  Over all of training the mean is 10 times as high.
  """
  return [result._replace(
      area=result.final_return and 10 * result.final_return)
          for result in sweep_results.of_returns(returns)]


def _pairs(variant, other, values):
  """Makes runs of two variants in pairs, of the seeds of one setting."""
  return {(name, 'setting', seed): pair[i]
          for seed, pair in enumerate(values)
          for i, name in enumerate((variant, other))}


def test_runs_are_compared_by_setting_and_seed():
  # Seeds differ by far more than the variants do.
  results = _results({**_pairs('none', 'vtrace', [
      (1., 2.), (11., 13.), (101., 104.)]), ('none', 'alone', 1): 1000.})
  band = differences.band(results, 'task', 'none', 'vtrace')
  theirs = stats.ttest_1samp([-1., -2., -3.], 0).confidence_interval(0.95)
  assert band.centre == -2.
  assert (*band.low, *band.high) == pytest.approx(theirs)
  assert differences.band(results, 'task', 'none', 'epsilon') is None


def test_table_compares_methods_within_an_arm_and_arms_within_a_method():
  results = _results({
      **_pairs('none', 'vtrace', [(1., 2.), (2., 3.1)]),
      **_pairs('none_equal_updates', 'vtrace_equal_updates',
               [(3., 3.), (5., 4.)]),
      **_pairs('none_replay', 'vtrace_replay', [(0., 6.), (0., 6.)]),
      **_pairs('vtrace_value', 'vtrace', [(1., 2.), (2.1, 3.1)])})
  lines = differences.of_corrections(results).splitlines()

  def row(heading, name):
    start = next(i for i, line in enumerate(lines) if heading in line)
    return next(line for line in lines[start:] if line.startswith(f'| {name} '))

  lost = '| No-correction | **-1.05 (-1.69 to -0.41)** |'
  assert row('*Without replay: minus V-trace*', 'No-correction') == lost
  assert row('*Without replay, equal updates: minus V-trace*',
             'No-correction') == '| No-correction | 0.50 (-5.85 to 6.85) |'
  assert row('minus half*', 'V-trace') == (
      '| V-trace | **0.95 (0.31 to 1.59)** |')
  assert row('minus without: equal updates*', 'V-trace') == (
      '| V-trace | 2.50 (-3.85 to 8.85) |')
  assert row('minus without: equal frames*', 'No-correction') == (
      '| No-correction | -1.50 (-7.85 to 4.85) |')
  assert row('*Without replay: V(x_{s+1}) minus v_{s+1}*', 'V-trace') == (
      '| V-trace | **-1.00 (-1.00 to -1.00)** |')
  assert row('*With replay: minus ε-correction*', 'No-correction') == (
      '| No-correction | – |')
  assert row('*With replay: minus V-trace*', '1-Step') == '| 1-Step | – |'


def test_each_variant_is_compared_with_those_before_it():
  lines = differences.of_variants(_results({
      ('small', 'setting', 1): 1., ('middle', 'setting', 1): 3.,
      ('large', 'setting', 1): 6.})).splitlines()
  assert 'of final returns over' in lines[0]
  assert lines[4:9] == [
      '| *minus small* |  |', '| middle | 2.00 |', '| large | 5.00 |',
      '| *minus middle* |  |', '| large | 3.00 |']
  assert 'of returns over all of training over' in lines[10]
  assert lines[-5:] == [
      '| *minus small* |  |', '| middle | 20.00 |', '| large | 50.00 |',
      '| *minus middle* |  |', '| large | 30.00 |']


def test_methods_are_compared_with_vtrace_at_each_lag():
  results = _results({
      **_pairs('none_lag_0', 'vtrace_lag_0', [(1., 2.), (2., 3.1)]),
      **_pairs('none_lag_10', 'vtrace_lag_10', [(1., 4.), (2., 5.1)])})
  lines = differences.of_lags(results).splitlines()
  # Without lag the methods are one, so that nothing is compared.
  assert lines[-4:] == [
      '| *Lag of 10: minus V-trace* |  |', '| 1-Step | – |',
      '| ε-correction | – |', '| No-correction | **-3.05 (-3.69 to -2.41)** |']
  assert sum('minus V-trace' in line for line in lines) == 1


def test_single_variant_has_no_table():
  results = _results({('alone', 'setting', 1): 1.})
  assert differences.of_variants(results) == ''
  assert differences.of_lags(_results({('vtrace_lag_1', 'a', 1): 1.})) == ''
  assert differences.of_agents(results) == ''


def test_agents_that_share_are_one_experiment_a_seed():
  results = _results({
      ('own', 'a', 1): 1., ('own', 'b', 1): 3., ('own', 'a', 2): 2.,
      ('shared', 'a', 1): 5., ('shared', 'b', 1): 4.,
      # The second agent of seed 2 has failed; seed 3 has no partner.
      ('shared', 'a', 2): 4.1, ('shared', 'b', 2): None,
      ('shared', 'a', 3): 9.})
  # Best agents: 5 - 3 and 4.1 - 2. All agents: 4.5 - 2 and 4.1 - 2.
  assert differences.of_agents(results).splitlines()[-1] == (
      '| task | shared | own | **2.05 (1.41 to 2.69)** | 2.30 (-0.24 to 4.84) '
      '| 23.00 (-2.41 to 48.41) |')
