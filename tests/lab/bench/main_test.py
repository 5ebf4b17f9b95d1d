"""Tests of the benchmark as a user runs it, on a level without a simulator."""

import json
import os

import pytest

from lab.bench import __main__ as benchmark
from tests.fixtures import programs


@pytest.mark.parametrize('arguments,words', [
    (['--config=nowhere.gin'], 'there is no file nowhere.gin'),
    (['--json=/'], '/ cannot be written')])
def test_bad_input_is_refused_before_anything_starts(refused, arguments, words):
  assert words in refused(benchmark.main, *arguments)


@pytest.mark.nightly
def test_whole_benchmark_reports_what_it_promises(tmp_path):
  path = tmp_path / 'result.json'
  ran = programs.run(
      'lab.bench', '--config=configs/catch.gin', '--seconds=1',
      '--gin_binding=ExperimentConfig.log_interval_secs = 0.3',
      f'--json={path}', timeout=300, check=True)
  assert not programs.pids('-m', 'lab.bench.parts')  # Workers end with it.
  result = json.loads(path.read_text())
  assert {
      'parts_cpu_ms_per_step', 'sum_cpu_ms_per_step', 'allowed_frames_per_sec',
      'frames_per_sec', 'ratio', 'cpu_secs_per_1000_frames',
      'policy_lag_updates_mean', 'learner_wait_share', 'peak_pss_mib',
      'data_plane_frames_per_sec', 'others_share'} <= set(result)
  assert result['cores'] == len(os.sched_getaffinity(0))
  assert {'parameters', 'actors', 'precision of the learner',
          'precision of actors'} <= set(result['speedups'])
  assert all(cost > 0 for cost in result['parts_cpu_ms_per_step'].values())
  assert 0 < result['ratio'] < 2
  assert f'{result["frames_per_sec"]:,.0f}' in ran.stdout
