"""Tests of A3C over the table against A3C in memory: input, and sums."""

import pytest

from lab.bench import gradient_table
from lab.bench import side_by_side
from lab.bench import training


@pytest.mark.parametrize('arguments, words', [
    (['configs/catch.gin'], "has the algorithm 'impala', not 'a3c'"),
    (['--rounds=0'], '--rounds and --seconds must be above 0'),
    (['--lengths=20,'], '--lengths must be numbers of steps'),
    (['--processes=0'], '--processes must be at least 1')])
def test_bad_input_is_refused_before_anything_starts(
    refused, arguments, words):
  assert words in refused(gradient_table.main, *arguments)


def _window(frames, secs, cpu_secs, *rows):
  columns = ('frames', 'updates', 'policy_lag', 'policy_lag_max')
  return training.Window(
      frames, secs, cpu_secs, stolen_secs=0, busy_secs=0,
      rows=[dict(zip(columns, row)) for row in rows])


def _measured(*windows):
  return side_by_side.Measured(list(windows), peak_pss_mib=1.)


def test_sums_are_those_of_all_rounds_and_ratios_of_turns():
  results = gradient_table.summarise({
      'memory': _measured(_window(1000, 2., {'actors': 3.}, (1500, 80, 1., 2),
                         (2000, 90, 1., 2)),
                 _window(500, 2., {'actors': 3.}, (2250, 100, 3., 9),
                         (3000, 120, 3., 2))),
      'table': _measured(_window(500, 2., {'actors': 2., 'learner': 1.},
                        (200, 10, 4., 6), (500, 20, 2., 7)),
                _window(500, 3., {'actors': 2.}, (800, 32, 1., 1),
                        (1000, 50, 1., 1)))})
  memory, table = results['memory'], results['table']
  assert memory['frames_per_sec'] == 375 and table['frames_per_sec'] == 200
  assert memory['gradients_per_sec'] == 15 and table['gradients_per_sec'] == 10
  assert memory['policy_lag_updates'] == 2 and table['policy_lag_updates'] == 2
  assert memory['policy_lag_max_updates'] == 9
  assert table['policy_lag_max_updates'] == 7
  assert memory['cpu_secs_per_1000_frames'] == 4
  assert table['cpu_secs_per_1000_frames'] == 5
  assert memory['ratio'] == 1
  assert table['ratio'] == pytest.approx((1 / 2 + 2 / 3) / 2)
