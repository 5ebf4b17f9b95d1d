"""Tests of A3C by the number of its processes: input, and sums."""

import pytest

from launch.benchmark import training
from launch.benchmark import worker_processes


@pytest.mark.parametrize('arguments, words', [
    (['configs/catch.gin'], "the algorithm 'impala', which has no workers"),
    (['--rounds=0'], '--rounds and --seconds must be above 0'),
    (['--processes=1,'], '--processes must be different numbers'),
    (['--processes=2,2'], '--processes must be different numbers'),
    (['--processes=0,1'], '--processes must be different numbers')])
def test_bad_input_is_refused_before_anything_starts(
    refused, arguments, words):
  assert words in refused(worker_processes.main, *arguments)


def _window(frames, secs, cpu_secs):
  return training.Window(
      frames, secs, cpu_secs, stolen_secs=0, busy_secs=0, rows=[])


def test_sums_are_those_of_all_rounds_and_ratios_of_turns():
  results = worker_processes.summarise({
      '1': [_window(1000, 2., {'actors': 1.5, 'learner': 0.5}),
            _window(500, 2., {'actors': 1.}), _window(500, 1., {'actors': 1.})],
      '2': [_window(2000, 2., {'actors': 4.}), _window(500, 1., {'actors': 2.}),
            _window(1500, 2., {'actors': 4.})]})
  one, two = results['1'], results['2']
  assert one['frames_per_sec'] == 400 and two['frames_per_sec'] == 800
  assert one['cpu_secs_per_1000_frames'] == 2
  assert two['cpu_secs_per_1000_frames'] == 2.5
  assert one['cores'] == 0.8 and two['cores'] == 2
  assert one['ratio'] == 1
  assert (two['ratio_low'], two['ratio'], two['ratio_high']) == (1.5, 2, 2)
