"""Figures of the paper's analysis, with numbers that can be checked by hand."""

import numpy as np
import pytest

from lab.figures import figures
from tests.fixtures import sweep_results


def _result(variant, setting, seed, final_return):
  return sweep_results.result(
      variant, final_return, setting, seed, frames=100, secs=1.)


def _write_curve(sweep_dir, result, points):
  sweep_results.write_rows(sweep_dir, result.run, [
      {'frames': x, 'episode_return': y} for x, y in points])


def test_curve_is_the_mean_over_frames_that_all_runs_have(tmp_path):
  results = [_result('replay', 'default', seed, 0.) for seed in (1, 2)]
  _write_curve(tmp_path, results[0], [(0, 0.), (100, 10.)])
  _write_curve(tmp_path, results[1], [(50, 1.), (200, 1.)])
  axes, = figures.curves_of_variants(str(tmp_path), results).axes
  line, = axes.lines
  x, y = line.get_data()
  assert (x[0], x[-1]) == (50, 100)
  np.testing.assert_allclose((y[0], y[-1]), ((5 + 1) / 2, (10 + 1) / 2))


def test_variants_are_bars_as_high_as_the_mean_of_their_settings():
  results = [_result(variant, setting, seed, value)
             for variant, setting, seed, value in (
                 ('a', 'x', 1, 1.), ('a', 'x', 2, 3.), ('a', 'y', 1, 8.),
                 ('b_c', 'x', 1, -2.), ('b_c', 'x', 2, None))]
  axes, = figures.variants(results).axes
  assert [label.get_text() for label in axes.get_xticklabels()] == ['a', 'b c']
  assert [bar.get_height() for bar in axes.patches] == [(2 + 8) / 2, -2.]
  # The mean of x's two seeds is 1 to 3, and y's single seed is always 8.
  (start, end), = (path.vertices[:, 1] for collection in axes.collections
                   for path in collection.get_paths())
  assert (start, end) == (pytest.approx(4.5), pytest.approx(5.5))


def test_final_returns_are_drawn_by_lag_with_an_interval_over_seeds():
  results = [_result(f'none_lag_{lag}', 'default', seed, lag + 0.5 * seed)
             for lag in (0, 10, 500) for seed in (1, 2, 3)]
  # Settings count alike, and are no sample.
  results += [result._replace(run=result.run._replace(setting='b'))
              for result in results if result.run.seed == 2]
  axes, = figures.lags(results).axes
  line, = axes.lines
  assert line.get_label() == 'No-correction'
  assert line.get_ydata().tolist() == [1., 11., 501.]
  assert line.get_xdata().tolist() == [0, 2, 4]  # Places of these lags.
  band, = axes.collections
  low, high = band.get_datalim(axes.transData).intervaly
  assert (low, high) == (0.75, 501.25)  # Half of 'default's range.


def test_best_agent_may_be_another_at_each_moment(tmp_path):
  results = [_result('shared', setting, seed, 0.)
             for seed in (1, 2) for setting in ('a', 'b')]
  for result, (first, last) in zip(
      results, ((0., 4.), (2., 1.), (1., 1.), (0., 6.))):
    _write_curve(tmp_path, result, [(0, first), (100, last)])
  axes, = figures.best_agents(str(tmp_path), results).axes
  line, = axes.lines
  assert (line.get_ydata()[0], line.get_ydata()[-1]) == (1.5, 5.)
  band, = axes.collections
  assert tuple(band.get_datalim(axes.transData).intervaly) == (1., 6.)
