"""Tests of the measurement of a replay's memory."""

import json

import pytest

from lab.bench import replay_memory
from tests.fixtures import programs


@pytest.mark.parametrize('arguments, words', [
    (['--unrolls=0'], '--unrolls must be at least 1'),
    (['--json=/nowhere/result.json'], '/nowhere/result.json cannot be')])
def test_bad_input_is_refused_before_anything_starts(
    refused, arguments, words):
  assert words in refused(replay_memory.main, *arguments)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_levels_are_measured_one_after_the_other(tmp_path):
  path = tmp_path / 'result.json'
  ran = programs.run(
      'lab.bench.replay_memory', 'configs/catch.gin',
      '--levels=catch,catch/delayed', '--unrolls=300', f'--json={path}',
      timeout=250)
  assert ran.returncode == 0, ran.stderr
  results = json.loads(path.read_text())
  assert [r['level'] for r in results] == ['catch', 'catch/delayed']
  for result in results:
    assert result['unrolls'] >= 300
    assert 100 < result['raw_bytes_per_unroll'] < 100_000
    assert f'| {result["level"]} | {result["unrolls"]:,} |' in ran.stdout
