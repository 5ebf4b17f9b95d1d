"""Tests of the benchmark of several learners: a user's run, and its sums."""

import json

import pytest

from lab.bench import several_learners
from tests.fixtures import programs

_MODULE = 'lab.bench.several_learners'


@pytest.mark.parametrize('arguments, words', [
    (['--learners=0,1'], '--learners must be numbers from 1 to '),
    (['--learners=1000'], "but is '1000'"),
    (['--learners=two'], "but is 'two'"),
    (['--rounds=0'], '--rounds and --seconds must be above 0'),
    (['--config=nowhere.gin'], 'there is no file nowhere.gin'),
    (['--json=/nowhere/result.json'], '/nowhere/result.json cannot be written'),
])
def test_bad_input_is_refused_before_anything_starts(
    refused, arguments, words):
  assert words in refused(several_learners.main, *arguments)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_learners_are_compared_with_one(tmp_path):
  path = tmp_path / 'result.json'
  ran = programs.run(
      _MODULE, '--learners=2', '--rounds=1', '--seconds=0.5',
      '--config=configs/catch.gin', f'--json={path}', timeout=300)
  assert ran.returncode == 0, ran.stderr
  alone, both = json.loads(path.read_text())
  assert alone['num_learners'] == 1 and both['num_learners'] == 2
  assert alone['efficiency'] == 1
  assert both['efficiency'] == pytest.approx(
      alone['update_ms'] / both['update_ms'])
  assert 0 < both['cpu_ms_per_update']
  assert 'efficiency' in ran.stdout


def _answer(updates, wall_secs, cpu_secs):
  return {'updates': updates, 'wall_secs': wall_secs, 'cpu_secs': cpu_secs}


def test_each_turn_is_compared_with_that_of_one_alone():
  # The host is twice as fast in the second turn.
  alone = [[_answer(10, 1., 0.8)], [_answer(20, 1., 0.8)]]
  both = [[_answer(5, 1., 0.5), _answer(5, 1., 0.7)],
          [_answer(10, 1., 0.5), _answer(10, 1., 0.7)]]
  one, two = several_learners.summarise({1: alone, 2: both})
  assert one == pytest.approx({
      'num_learners': 1, 'update_ms': 1e3 / 15, 'cpu_ms_per_update': 60.,
      'efficiency': 1.})
  assert two == pytest.approx({
      'num_learners': 2, 'update_ms': 1e3 / 7.5, 'cpu_ms_per_update': 85.,
      'efficiency': 0.5})
