"""Faults of runs whose workers share parameters, under the real command."""

import math
import pathlib

import numpy as np
import pytest

from impala_tf.agents import saved
from impala_tf.runs import metrics
from tests.fixtures import parameters
from tests.fixtures import programs
from tests.fixtures.faults import environments
from tests.fixtures.faults import runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _training(run_dir, *arguments):
  """Starts a run of two processes, or resumes it; yields a `runs.Run`."""
  return runs.starting(
      run_dir, 'configs/a3c/catch.gin', runs.bind('ActorConfig.num_actors', 2),
      runs.bind('AsyncConfig.num_workers', 4),
      runs.bind('ExperimentConfig.log_interval_secs', 0.2), *arguments)


def _stop(run):
  code, text = run.interrupt()
  assert code == 130, text + run.log()


def _agent(run_dir):
  return saved.load_agent(str(run_dir))


def _shares_memory(pid):
  maps = pathlib.Path(f'/proc/{pid}/maps').read_text()
  return 'impala_tf_shared_parameters' in maps


@pytest.mark.parametrize('shares', [True, False])
def test_killed_worker_process_costs_its_segment_only(tmp_path, fault, shares):
  """Processes share parameters, or learn through the tables."""
  with _training(
      tmp_path, runs.ENDLESS, '--evaluate',
      runs.bind('ExperimentConfig.evaluation_interval_secs', 1.),
      runs.bind('AsyncConfig.share_memory', shares),
      runs.bind('AsyncConfig.max_segment_steps', 9),  # An episode.
      runs.bind('ActorConfig.max_restarts', 10**6)) as run:
    for i in range(fault.tries):
      actors = run.wait_for_actors(2)
      run.wait_for_frames()
      assert [_shares_memory(pid) for pid in actors] == [shares] * 2
      victim = actors[i % 2]
      programs.kill(victim)
      run.wait_for_frames()  # The other goes on meanwhile.
      run.wait_for_actors(2, besides=[victim])
    run.wait(lambda: metrics.read_rows(str(tmp_path / 'evaluation')),
             'an evaluation')
    run.wait(lambda: run.row().get('episode_return', -1) > -0.4,
             'a better return than that of chance, -0.6')
    rows = run.rows()
    _stop(run)
  frames = [row['frames'] for row in rows]
  assert frames == sorted(frames)
  assert all(math.isfinite(row['loss/total']) for row in rows)
  # Parameters do not move within a segment, so acting and learning agree.
  ratios = [row['rho/mean'] for row in rows if 'rho/mean' in row]
  np.testing.assert_allclose(ratios, 1, atol=1e-4)
  if not shares:
    # The mean of all segments, not of rows: one may hold little else than a
    # segment that was held up. There are the queue, and the two that play.
    lags = [row['policy_lag'] for row in rows]
    num_segments = np.diff([0, *(row['updates'] for row in rows)])
    assert 0 < np.average(lags, weights=num_segments) < 8 + 2
  loaded = _agent(tmp_path)
  assert loaded.num_frames >= frames[-1]
  assert np.isfinite(parameters.flatten(loaded.agent)).all()
  assert not programs.pids(f'--run_dir={tmp_path}')
  how = 'share parameters' if shares else 'send gradients'
  fault.report(f'kill -9 of one of two processes of workers that {how}',
               'the segment that was played')


def test_killed_learner_ends_the_run_and_the_same_command_goes_on(tmp_path):
  often = runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.)
  with _training(tmp_path, runs.ENDLESS, often) as run:
    run.wait_for_checkpoint()
    run.kill_learner()
  saved_frames = _agent(tmp_path).num_frames
  with _training(tmp_path, runs.ENDLESS, often) as run:
    run.wait(lambda: any(row['policy_lag_max'] > 0 for row in run.rows()),
             'segments that were played side by side')
    run.wait_for('frames', saved_frames + 200)
    _stop(run)
  rows = run.rows()
  frames = [row['frames'] for row in rows]
  assert frames == sorted(frames)
  assert _agent(tmp_path).num_frames >= frames[-1] > saved_frames > 0
  # A segment keeps its parameters, though others move the shared ones.
  ratios = [row['rho/mean'] for row in rows if 'rho/mean' in row]
  assert ratios
  np.testing.assert_allclose(ratios, 1, atol=1e-5)


def test_nan_of_one_worker_is_not_shared_with_the_other_process(
    tmp_path, fault):
  """An environment gives NaN for a while; the others' workers learn on."""
  with _training(
      tmp_path, runs.ENDLESS, environments.IMPORT,
      runs.bind('EnvironmentConfig.level', environments.SPOILT),
      runs.bind('ImpalaConfig.reward_clipping', 'none'),
      runs.bind('OptimizerConfig.max_skipped_updates', 10**6)) as run:
    run.wait_for_frames()
    for _ in range(fault.tries):
      environments.spoil(tmp_path, 'reward nan 4')
      run.wait_for_more('updates_skipped', 3)
      run.wait_for_more('updates', 21)
      environments.spoil(tmp_path, '')
      run.wait_for_frames()
    log = run.log()
    _stop(run)
  assert 'not finite' in log and 'of worker' in log
  assert np.isfinite(parameters.flatten(_agent(tmp_path).agent)).all()
  fault.report('a worker whose gradients are NaN for a while',
               'those gradients')
