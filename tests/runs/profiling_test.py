"""Profiles: files of hops, and the time budget by hand."""

import json

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import metrics
from impala_tf.runs import profiling

CONFIG = config_lib.Config(
    actor=config_lib.ActorConfig(num_actors=1, num_envs=4),
    learner=config_lib.LearnerConfig(batch_size=16, queue_capacity=16),
    replay=config_lib.ReplayConfig(replay_fraction=0.5))


def _row(updates, secs):
  return dict(frames=640 * updates, updates=updates, secs=secs, policy_lag=5.,
              queue_occupancy=0.25, learner_wait_share=0.4)


def test_hops_add_up_to_the_policy_lag_and_the_update(tmp_path, capsys):
  # 10 updates in 2 s: 0.2 s each.
  (tmp_path / metrics.FILE_NAME).write_text(''.join(
      json.dumps(row) + '\n' for row in (_row(0, 0.), _row(10, 2.))))
  for i, stepping in enumerate((0.2, 0.6)):
    secs = iter([0., 0.1, 5., 5.])
    writer = profiling.HopTimesWriter(
        str(tmp_path), f'actor_{i}', lambda secs=secs: next(secs))
    writer.add_unroll({'environment': 9.})
    if not i:  # It was too soon to write.
      profiling.show_time_budget(CONFIG, str(tmp_path))
      assert 'No time budget' in capsys.readouterr().out
    writer.add_unroll({'environment': stepping, 'inference': 0.2})
  budget = profiling.time_budget(CONFIG, str(tmp_path))
  assert budget == pytest.approx({
      # Means over two unrolls of each actor.
      'environment': 0.2, 'inference': 0.1,
      # 4 unrolls, half of a batch's new ones, so half of an update's time.
      'in the queue': 0.1,
      # A lag of 5 updates is 1 s, of which the rest is left.
      'batching': 0.6,
      'learning': 0.12})
  assert list(budget)[-3:] == ['in the queue', 'batching', 'learning']
  for _ in range(2):  # Also if there is none.
    profiling.forget(str(tmp_path))
    assert profiling.time_budget(CONFIG, str(tmp_path)) == {}
