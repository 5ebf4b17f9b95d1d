"""Frames to given returns, with curves made by hand."""

import pytest

from lab.figures import goals
from tests.fixtures import sweep_results


@pytest.mark.parametrize('goal, reached', [
    (-30., 1), (-20., 3), (-19.5, 4), (-18., None)])
def test_goal_is_reached_at_the_first_row_that_is_not_below_it(goal, reached):
  points = [(1, -21.), (3, -20.), (4, -19.), (5, -20.5)]
  assert goals.first_reached(points, goal) == reached


def test_each_run_has_its_number_in_the_order_of_the_runs(tmp_path):
  results = []
  for variant, seed, curve in (
      ('a', 1, [(1_000_000, 1.), (2_000_000, 2.)]), ('b', 1, [(500_000, 3.)]),
      ('a', 2, [(1_500_000, None), (2_500_000, 1.)])):
    results.append(sweep_results.result(variant, None, seed=seed))
    sweep_results.write_rows(tmp_path, results[-1].run, [
        *({'frames': x, 'episode_return': y, 'episodes': 100}
          for x, y in curve),
        {'frames': 3_000_000, 'episode_return': 9., 'episodes': 99}])
  assert goals.table(str(tmp_path), results, [1., 2.5]).splitlines()[2:] == [
      '| task | variant | 1 | 2.5 |', '| --- | --- | --- | --- |',
      '| catch | a | 1.00, 2.50 | never, never |',
      '| catch | b | 0.50 | 0.50 |']
