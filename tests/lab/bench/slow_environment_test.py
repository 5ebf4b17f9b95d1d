"""Tests of the benchmark of one slow environment, in a few seconds."""

import re

import pytest

from tests.fixtures import programs


@pytest.mark.slow
def test_each_way_of_playing_is_measured():
  ran = programs.run(
      'lab.bench.slow_environment', '--num_envs=3', '--step_ms=0.1',
      '--slow_step_ms=5', '--rounds=1', '--seconds=0.2')
  assert ran.returncode == 0, ran.stderr
  header, *ways, fast, slow = ran.stdout.splitlines()
  assert header.split() == [
      'steps/s', '(median)', 'all', 'fast', 'one', 'slow', 'ratio', 'vs.',
      'in', 'turn']
  assert [re.split('  +', line)[0] for line in ways] == [
      'in turn', 'all together', 'dynamic']
  for line in fast, slow:
    assert re.match(r'inference batch, dynamic, .*: mean [123]\.\d; ', line)
