"""Tests of the time budget, with numbers that can be checked by hand."""

import json

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import metrics
from impala_tf.runs import profiling
from impala_tf.runs import time_budget

CONFIG = config_lib.Config(
    actor=config_lib.ActorConfig(num_actors=1, num_envs=4),
    learner=config_lib.LearnerConfig(batch_size=8, queue_capacity=16))


def _row(updates, secs):
  return dict(frames=640 * updates, updates=updates, secs=secs, policy_lag=5.,
              queue_occupancy=0.25, learner_wait_share=0.4)


@pytest.fixture(name='run_dir')
def _run_dir(tmp_path):
  for i, stepping in enumerate((0.1, 0.3)):
    writer = profiling.HopTimesWriter(str(tmp_path), f'actor_{i}')
    writer._last_write = 0.  # Long ago.
    writer.add_unroll({'environment': stepping, 'inference': 0.1})
  # 10 updates in 2 s: 0.2 s each.
  rows = [_row(0, 0.), _row(10, 2.)]
  (tmp_path / metrics.FILE_NAME).write_text(
      ''.join(json.dumps(row) + '\n' for row in rows))
  return str(tmp_path)


def test_hops_add_up_to_the_policy_lag_and_the_update(run_dir):
  budget = time_budget.compute(CONFIG, run_dir)
  assert budget == pytest.approx({
      'environment': 0.2, 'inference': 0.1,
      # 4 unrolls, half a batch, so half of an update's time.
      'in the queue': 0.1,
      # A lag of 5 updates is 1 s, of which the rest is left.
      'batching': 0.6,
      'learning': 0.12})
  assert list(budget)[-3:] == ['in the queue', 'batching', 'learning']


def test_run_that_ended_too_soon_has_none(tmp_path, capsys):
  time_budget.show(CONFIG, str(tmp_path))
  assert 'No time budget' in capsys.readouterr().out
