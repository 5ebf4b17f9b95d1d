"""Tests of the trust region's cost: a user's run, and its sums."""

import json

import pytest

from lab.bench import trust_region
from tests.fixtures import programs

_MODULE = 'lab.bench.trust_region'


@pytest.mark.parametrize('arguments, words', [
    (['configs/catch.gin'], "has the algorithm 'impala', not 'laser'"),
    (['--rounds=0'], '--rounds and --seconds must be above 0')])
def test_bad_input_is_refused_before_anything_starts(
    refused, arguments, words):
  assert words in refused(trust_region.main, *arguments)


def test_ratio_is_that_of_turns_and_not_of_medians():
  result = trust_region.summarise(
      {'laser': [.2, .6, .3], 'without': [.1, .5, .2]})
  assert result['with_ms'] == 300 and result['without_ms'] == 200
  assert round(result['ratio'], 6) == 1.5


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_updates_with_and_without_are_compared(tmp_path):
  path = tmp_path / 'result.json'
  ran = programs.run(
      _MODULE, 'configs/laser/catch_delayed.gin', '--rounds=1',
      '--seconds=0.3', f'--json={path}', timeout=250)
  assert ran.returncode == 0, ran.stderr
  assert 'times as much' in ran.stdout
  assert 0.3 < json.loads(path.read_text())['ratio'] < 3
