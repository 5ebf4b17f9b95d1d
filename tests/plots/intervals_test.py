"""Tests of statistics of runs against SciPy and cases that are known."""

import numpy as np
import pytest
from scipy import stats

from impala_tf.plots import intervals

_ONE = 'catch'


@pytest.mark.parametrize('name', intervals.STATISTICS)
@pytest.mark.slow
def test_interval_is_scipys_percentile_bootstrap(name):
  values = np.random.default_rng(3).lognormal(size=(9, 2))
  statistic = intervals.STATISTICS[name]
  ours = intervals.band(values, [_ONE] * 9, statistic, 0.8)
  for p in range(2):
    theirs = stats.bootstrap(
        (values[:, p],), lambda x, axis: np.apply_along_axis(
            lambda v: statistic(v[:, np.newaxis])[0], axis, x),
        confidence_level=0.8, n_resamples=4000, method='percentile',
        random_state=0).confidence_interval
    # Both are of random draws: 6% of the width is over three standard errors.
    width = theirs.high - theirs.low
    assert ours.low[p] == pytest.approx(theirs.low, abs=0.06 * width)
    assert ours.high[p] == pytest.approx(theirs.high, abs=0.06 * width)
    assert ours.low[p] < ours.centre[p] < ours.high[p]


def test_draws_are_within_strata_and_of_whole_curves():
  # Runs within each task are equal, so that draws there make no difference.
  values = np.array([[0., 1.], [0., 1.], [10., 11.], [10., 11.]])
  band = intervals.band(values, ['a', 'a', 'b', 'b'], intervals.mean, 0.95)
  np.testing.assert_allclose([band.low, band.high], [[5., 6.]] * 2)
  mixed = intervals.band(values, [_ONE] * 4, intervals.mean, 0.95)
  assert mixed.low[0] < 5 < mixed.high[0]
  # The second point is the first plus 1 in every run, so in every draw.
  np.testing.assert_allclose(mixed.low[1], mixed.low[0] + 1)


def test_t_interval_is_scipys_of_one_stratum_and_welchs_of_two():
  rng = np.random.default_rng(4)
  first, second = rng.normal(1, 2, 5), rng.normal(3, .1, 3)
  one = intervals.t_band(first[:, np.newaxis], [_ONE] * 5, 0.9)
  theirs = stats.ttest_1samp(first, 0).confidence_interval(0.9)
  np.testing.assert_allclose([*one.low, *one.high], theirs)
  two = intervals.t_band(np.concatenate([first, second])[:, np.newaxis],
                         ['a'] * 5 + ['b'] * 3, 0.9)
  # The mean of both means is half the difference of the first and minus the
  # second.
  theirs = stats.ttest_ind(
      first, -second, equal_var=False).confidence_interval(0.9)
  np.testing.assert_allclose([*two.low, *two.high], np.array(theirs) / 2)
  assert two.centre == pytest.approx((first.mean() + second.mean()) / 2)


@pytest.mark.parametrize('others_sd, bootstrap, t', [
    (1., (0.83, 0.88), (0.94, 0.98)), (0.1, (0.71, 0.78), (0.90, 0.95))])
def test_t_interval_covers_the_truth_where_a_bootstrap_of_few_runs_does_not(
    others_sd, bootstrap, t):
  # 2,000 experiments of six settings with three seeds each.
  scale = np.repeat([1.] + [others_sd] * 5, 3)[:, np.newaxis]
  values = np.random.default_rng(5).normal(size=(18, 2000)) * scale
  strata = np.repeat(list('abcdef'), 3).tolist()
  for (low, high), band in (
      (bootstrap, intervals.band(values, strata, intervals.mean, 0.95)),
      (t, intervals.t_band(values, strata, 0.95))):
    assert low < np.mean((band.low < 0) & (0 < band.high)) < high


def test_t_interval_of_equal_runs_is_a_point_and_of_a_single_one_is_none():
  band = intervals.t_band(np.array([[1.], [1.], [3.], [3.]]),
                          ['a', 'a', 'b', 'b'], 0.95)
  assert (band.low, band.centre, band.high) == (2., 2., 2.)
  band = intervals.t_band(np.array([[1.], [2.], [6.]]), ['a', 'a', 'b'], 0.95)
  assert band == (3.75, None, None)  # Settings count alike.


def test_nothing_to_draw_from_has_no_interval():
  values = np.arange(4.).reshape(2, 2)
  for strata, confidence in ((['a', 'b'], 0.95), (['a', 'a'], None)):
    band = intervals.band(values, strata, intervals.mean, confidence)
    assert band.low is None and band.high is None
    assert band.centre.tolist() == [1., 2.]


@pytest.mark.parametrize('window', [1, 2, 5, 99])
def test_running_means_are_those_of_a_loop(window):
  values = np.random.default_rng(1).normal(size=11)
  wanted = []
  for i in range(11):
    half = min(window // 2, i, 10 - i)
    wanted.append(np.mean(values[i - half:i + half + 1]))
  np.testing.assert_allclose(intervals.smoothed(values, window), wanted)


def test_curves_meet_on_the_axis_that_they_share():
  x, y = intervals.on_common_axis(
      [[(0, 0.), (100, 10.)], [(50, 1.), (200, 4.)]], 3)
  assert x.tolist() == [50, 75, 100]
  np.testing.assert_allclose(y, [[5, 7.5, 10], [1, 1.5, 2]])
  x, _ = intervals.on_common_axis([[(0, 0.), (1, 0.)], [(2, 0.)]], 3)
  assert not x.size
  x, y = intervals.on_common_axis([[(7, 1.)], [(7, 2.)]], 3)
  assert x.tolist() == [7] and y.tolist() == [[1], [2]]
