"""The learner's loop over fakes: its calls, their order, and its rows."""

from unittest import mock

import dm_env
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.comms import unroll_filter
from impala_tf.core import loop
from impala_tf.optimizers import hyperparameters
from impala_tf.replay import sources
from impala_tf.runs import metrics
from impala_tf.runs import skipped_updates
from impala_tf.runs import training_log
from impala_tf.runtime import waiting
from tests.fixtures import hosts

FIRST, MID = int(dm_env.StepType.FIRST), int(dm_env.StepType.MID)
FRAMES = 100  # An update.
MAX_SKIPPED = 3


class _Learner:
  """A learner that counts; its metric is ten times the updates before."""

  def __init__(self, skipped=()):
    self._skipped = skipped  # Updates, counted from 1.
    self.hyperparameters = hyperparameters.Hyperparameters(config_lib.Config(
        optimizer=config_lib.OptimizerConfig(max_gradient_norm=40.)))
    self.num_updates = tf.Variable(0, dtype=tf.int64)
    self.num_frames = tf.Variable(0, dtype=tf.int64)

  def update(self, unroll):
    del unroll
    metric = 10. * float(self.num_updates)
    self.num_updates.assign_add(1)
    self.num_frames.assign_add(FRAMES)
    norm = float('nan') if int(self.num_updates) in self._skipped else 1.
    return {'metric': tf.constant(metric), 'gradient_norm': tf.constant(norm)}


def _unroll(version=0, returns=(), step_type=MID):
  """Makes a batch, T=2, B=2; episodes of `returns` end at x_1 and x_2."""
  step_types = np.full((3, 2), MID, np.uint8)
  step_types[0] = step_type
  episode_return = np.full((3, 2), -99., np.float32)
  for i, value in enumerate(returns):
    place = 1 + i // 2, i % 2
    step_types[place], episode_return[place] = FIRST, value
  zeros = np.zeros((3, 2), np.float32)
  env_outputs = types.EnvOutput(
      step_type=tf.constant(step_types), reward=zeros, discount=zeros,
      observation=zeros, episode_return=tf.constant(episode_return),
      episode_steps=tf.constant(np.full((3, 2), 7, np.int32)))
  return types.Unroll(env_outputs, (), (),
                      tf.constant([version, version - 1], tf.int64),
                      tf.constant([1, 0], tf.int32),
                      types.Origin(tf.constant([False, True])))


def _note(saved):
  """Returns a `SaveFn` that notes the numbers of checkpoints."""
  return lambda number, score: saved.append(number)


class _Publisher:
  """A callback that publishes by a function of the version."""

  def __init__(self, publish):
    self._publish = publish

  def after_update(self, update):
    self._publish(update.updates)


class _Run:
  """A run of the loop, with log and checkpoints, that notes what was called."""

  def __init__(self, tmp_path, unrolls, total_frames=10_000, row_secs=0.,
               checkpoint_secs=1e9, stop_after=None, publish=None,
               num_fresh=2, levels=(), skipped=(), save=None,
               gather=list, gauges=lambda: {'queue_occupancy': 0.25},
               stop_at_return=None, callbacks=(), learner=None, totals=None,
               num_envs=0):
    self.learner = learner or _Learner(skipped)
    self.totals = totals or training_log.Totals(max(1, len(levels)))
    level_log = training_log.LevelLog(
        levels, self.totals.level_frames, FRAMES // 2) if levels else None
    self.published, self.saved, self.shown = [], [], []
    self.skipped = skipped_updates.SkippedUpdates(str(tmp_path), MAX_SKIPPED)
    log = training_log.TrainingLog(
        training_log.LogSettings(
            str(tmp_path), num_fresh, row_secs, num_envs=num_envs),
        self.learner, self.totals, gauges, level_log, gather, self.shown.append)
    checkpoints = training_log.Checkpoints(
        checkpoint_secs, save or _note(self.saved), self.learner, log)
    num_replayed = len(unrolls[0].level_index) - num_fresh
    replayed = ([sources.ReplayColumns(num_replayed, list)] if num_replayed
                else [])

    config = config_lib.ExperimentConfig(
        total_frames=total_frames, stop_at_return=stop_at_return)
    try:
      with checkpoints:
        self.is_done = loop.train(
            iter(unrolls[:stop_after]), self.learner,
            [_Publisher(publish or self.published.append), self.skipped,
             *replayed, log, skipped_updates.Limit(self.skipped), checkpoints,
             *callbacks], lambda: log.is_done(config))
    finally:
      self.rows = metrics.read_rows(str(tmp_path))


def test_each_update_is_published_and_the_last_is_saved(tmp_path):
  run = _Run(tmp_path, [_unroll()] * 9, total_frames=250)
  assert run.is_done
  assert run.published == [1, 2, 3]  # 300 frames: the first at or above 250.
  assert run.saved == [3]
  assert [row['frames'] for row in run.rows] == [100, 200, 300]
  assert run.shown == run.rows


@pytest.mark.parametrize('stop_after', [0, 2])
def test_run_that_stops_saves(tmp_path, stop_after):
  run = _Run(tmp_path, [_unroll()] * 9, stop_after=stop_after)
  assert run.published == list(range(1, stop_after + 1))
  assert run.saved == [stop_after] and not run.is_done


def test_callback_gets_each_update_and_ends_the_run(tmp_path):
  stopper = hosts.Updates(limit=3)
  run = _Run(tmp_path, [_unroll()] * 9, skipped=(2,), callbacks=[stopper])
  assert run.is_done and run.saved == [3]
  assert [(u.updates, u.frames) for u in stopper.updates] == [
      (1, 100), (2, 200), (3, 300)]
  assert [u.metrics.get('metric') for u in stopper.updates] == [0., None, 20.]
  assert {u.episode_return for u in stopper.updates} == {None}


def test_run_is_done_once_a_hundred_episodes_are_good_enough(tmp_path):
  unrolls = [_unroll(returns=[1., 1., 3., 3.])] * 99
  stopper = hosts.Updates()
  run = _Run(tmp_path, unrolls, stop_at_return=2., callbacks=[stopper])
  assert run.is_done and run.saved == [25]  # Of 4 episodes each.
  assert stopper.updates[-1].episode_return == 2.
  run = _Run(tmp_path, unrolls[:30], stop_at_return=2.01)
  assert not run.is_done and run.saved == [30]


def test_error_before_the_first_update_leaves_nothing(tmp_path):
  saved = []

  class Learner(_Learner):
    def update(self, unroll):
      raise config_lib.UserError('cannot work')

  with pytest.raises(config_lib.UserError):
    _Run(tmp_path, [_unroll()], learner=Learner(), save=_note(saved))
  assert not saved and not metrics.read_rows(str(tmp_path))


def test_failure_is_raised_and_a_checkpoint_saved(tmp_path):
  saved = []

  def publish(version):
    if version == 2:
      raise RuntimeError('lost')

  with pytest.raises(RuntimeError, match='lost'):
    _Run(tmp_path, [_unroll()] * 9, publish=publish, save=_note(saved))
  assert saved == [2]
  assert [r['updates'] for r in metrics.read_rows(str(tmp_path))] == [1]


def _lose(version):
  if version == 3:
    raise waiting.PeerLost('lost')


def _failing_gauges():
  raise ConnectionError('the server does not answer')


def test_nothing_is_saved_if_another_learner_is_lost(tmp_path):
  saved = []
  with pytest.raises(waiting.PeerLost):
    _Run(tmp_path, [_unroll()] * 9, publish=_lose, save=_note(saved))
  assert not saved
  assert len(metrics.read_rows(str(tmp_path))) == 2
  with pytest.raises(ConnectionError):  # Of the last row.
    _Run(tmp_path, [_unroll()] * 9, row_secs=1e9, publish=_lose,
         save=_note(saved), gauges=_failing_gauges)
  assert not saved


def test_rows_are_of_the_unrolls_of_all_learners(tmp_path):

  def gather(arrays):  # Of two learners that have the same.
    return [np.concatenate([array, array], axis=-1) for array in arrays]

  unrolls = [_unroll(version=-i, returns=[5., 1., 3.]) for i in range(2)]
  row, = _Run(tmp_path, unrolls, num_fresh=1, row_secs=1e9,
              levels=('tmaze/1', 'catch'), gather=gather).rows
  assert row['episodes'] == 2 * 2 * 2  # Of the first unroll of each batch.
  assert row['episode_return'] == (5 + 3) / 2
  assert row['policy_lag'] == (0 + 2) / 2 and row['policy_lag_max'] == 2
  assert row['replayed/policy_lag'] == (1 + 3) / 2
  assert row['level/catch/frames'] == 2 * 2 * FRAMES // 2
  assert row['level/catch/episode_return'] == (5 + 3) / 2
  assert row['level/tmaze/1/frames'] == 0
  assert 'level/tmaze/1/episode_return' not in row


def test_row_summarises_the_updates_since_the_last(tmp_path):
  unrolls = [_unroll(version=0), _unroll(version=1), _unroll(version=1)]
  run = _Run(tmp_path, unrolls, row_secs=1e9)
  row, = run.rows  # Written at the end, though no row was due.
  assert run.shown == [row]
  assert row['metric'] == 10.  # 0, 10, 20.
  # Updates 0, 1, 2 learn from versions (0, -1), (1, 0) and (1, 0).
  assert row['policy_lag'] == pytest.approx((0 + 1 + 0 + 1 + 1 + 2) / 6)
  assert row['policy_lag_max'] == 2
  assert row['frames'] == 300 and row['updates'] == 3
  assert row['queue_occupancy'] == 0.25
  assert row['secs'] == float(run.totals.secs) > 0
  assert row['frames_per_sec'] > 0
  assert row['episodes'] == 0 and 'episode_return' not in row


def test_episodes_count_once_at_their_ends_and_lost_ones_in_a_column(tmp_path):
  # x_0 is FIRST: that episode's end was in the unroll before.
  unroll = _unroll(returns=[5., 1., 3.], step_type=FIRST)
  steps = np.array(unroll.env_outputs.episode_steps)
  steps[1, 0] = 0  # Of the first.
  run = _Run(tmp_path, [unroll._replace(env_outputs=unroll.env_outputs._replace(
      episode_steps=tf.constant(steps)))], levels=('tmaze/1', 'catch'))
  row, = run.rows
  assert row['episodes'] == 2 and row['episodes_lost'] == 1
  assert row['episode_return'] == 2. and row['episode_steps'] == 7.
  assert 'level/catch/episode_return' in row


def test_best_return_is_of_full_windows_and_never_falls(tmp_path):
  # 4 episodes each: the window is full with the 25th unroll.
  good, bad = _unroll(returns=[9.] * 4), _unroll(returns=[1.] * 4)
  # The first games to end are left out, as many as there are environments.
  easy = _unroll(returns=[99.] * 4)
  run = _Run(tmp_path, [easy] * 2 + [good] * 24 + [bad] * 26, num_envs=8)
  run.rows = run.rows[2:]
  assert all('best_episode_return' not in row for row in run.rows[:24])
  best = [row['best_episode_return'] for row in run.rows[24:]]
  assert best[0] == pytest.approx((96 * 9 + 4) / 100)
  assert set(best) == {best[0]} and run.rows[-1]['episode_return'] == 1.
  assert float(run.totals.best_return) == best[0]


def test_time_and_best_return_go_on_from_restored_ones(tmp_path):
  totals = training_log.Totals()
  totals.secs.assign(1000.)
  totals.best_return.assign(3.)
  row, = _Run(tmp_path, [_unroll()], totals=totals).rows
  assert 1000. < row['secs'] < 1000. + 60.
  assert row['best_episode_return'] == 3.


def test_checkpoint_has_the_time_since_the_last_row(tmp_path):
  totals, saved = training_log.Totals(), []
  run = _Run(tmp_path, [_unroll()] * 4, row_secs=1e9, checkpoint_secs=1e-9,
             totals=totals,
             save=lambda number, score: saved.append(float(totals.secs)))
  assert saved == sorted(set(saved)) and saved[0] > 0
  assert run.rows[-1]['secs'] == saved[-1]


def test_skipped_updates_count_and_leave_the_means_alone(tmp_path):
  run = _Run(tmp_path, [_unroll(returns=[7.])] * 4, row_secs=1e9,
             skipped=(2, 3))
  row, = run.rows
  assert row['metric'] == (0 + 30) / 2 and row['gradient_norm'] == 1.
  assert row['frames'] == 400 and row['updates'] == 4
  assert row['episodes'] == 4  # They were played all the same.
  assert run.skipped.total == 2 and run.published == [1, 2, 3, 4]
  assert not (tmp_path / skipped_updates.FILE_NAME).exists()


def test_run_of_nothing_but_skipped_updates_ends_with_the_batch(tmp_path):
  unrolls = [_unroll(version=v) for v in range(9)]
  saved = []
  with pytest.raises(config_lib.UserError, match='3 updates in a row') as error:
    _Run(tmp_path, unrolls, skipped=(1, 2, 4, 5, 6, 7), save=_note(saved))
  assert skipped_updates.FILE_NAME in str(error.value) and saved == [6]
  rows = metrics.read_rows(str(tmp_path))
  assert [row['updates'] for row in rows] == [1, 2, 3, 4, 5, 6]
  assert [row['updates'] for row in rows if 'metric' in row] == [3]
  batch = np.load(tmp_path / skipped_updates.FILE_NAME)
  assert batch['policy_version'].tolist() == [5, 4]  # The sixth.
  assert 'env_outputs.instruction' not in batch  # It is empty.


def _failing_saves(numbers, saved):
  def save(number, score):
    del score
    if number in numbers:
      raise OSError('no space left')
    saved.append(number)

  return save


def test_checkpoint_that_fails_is_counted_and_training_goes_on(tmp_path):
  saved = []
  run = _Run(tmp_path, [_unroll()] * 4, checkpoint_secs=1e-9,
             save=_failing_saves({1, 2}, saved))
  assert saved == [3, 4, 4]
  assert [row['checkpoints_failed'] for row in run.rows] == [0, 1, 2, 2]


def test_checkpoint_is_due_an_interval_after_the_last(tmp_path, monkeypatch):
  learner = _Learner()
  monkeypatch.setattr(training_log, 'time', mock.Mock(
      monotonic=learner.num_updates.numpy))  # A second for each update.
  run = _Run(tmp_path, [_unroll()] * 30, checkpoint_secs=10, learner=learner)
  assert run.saved == [11, 22, 30]


def test_row_that_fails_loses_no_checkpoint(tmp_path):
  saved = []
  with pytest.raises(ConnectionError, match='does not answer'):
    _Run(tmp_path, [_unroll()] * 4, row_secs=1e9, save=_note(saved),
         gauges=_failing_gauges)
  assert saved == [4]


def test_rows_have_the_hyperparameters_of_their_moment(tmp_path):
  learner = _Learner()
  costs = iter((0.125, 0.25))

  def change(version):
    learner.hyperparameters.entropy_cost.assign(next(costs))

  rows = _Run(tmp_path, [_unroll()] * 2, learner=learner, publish=change).rows
  assert [row['entropy_cost'] for row in rows] == [0.125, 0.25]
  assert rows[0]['epsilon'] == pytest.approx(0.01)
  assert rows[0]['max_gradient_norm'] == 40


def test_last_checkpoint_that_fails_is_an_error(tmp_path):
  saved = []
  with pytest.raises(OSError, match='no space left'):
    _Run(tmp_path, [_unroll()] * 4, save=_failing_saves({4}, saved))
  assert len(metrics.read_rows(str(tmp_path))) == 4


def test_checkpoints_are_scored_once_100_episodes_have_ended(tmp_path):
  scores = []
  # Three episodes end in each batch, with a mean return of n in the nth.
  unrolls = [_unroll(returns=[n - 1., n, n + 1.]) for n in range(1, 41)]
  _Run(tmp_path, unrolls, checkpoint_secs=1e-9,
       save=lambda number, score: scores.append(score))
  assert scores[:33] == [None] * 33  # 99 episodes.
  # The last 100 of 102 episodes leave out two of the first batch.
  assert scores[33] == pytest.approx((2 + 3 * sum(range(2, 35))) / 100)
  assert scores[-1] == pytest.approx((8 + 3 * sum(range(8, 41))) / 100)


def test_lag_is_of_own_unrolls_that_are_not_of_the_future(tmp_path):
  # Four replayed unrolls: own, another agent's, own of a lost future, own.
  zeros = np.zeros((3, 5), np.float32)
  unroll = types.Unroll(
      types.EnvOutput(
          step_type=tf.constant(np.full((3, 5), MID, np.uint8)), reward=zeros,
          discount=zeros, observation=zeros, episode_return=tf.constant(zeros),
          episode_steps=tf.zeros((3, 5), tf.int32)), (), (),
      tf.constant([0, -2, -900, 7, -6], tf.int64), tf.zeros([5], tf.int32),
      types.Origin(tf.constant([False] + [True] * 4),
                   is_foreign=tf.constant([False, False, True, False, False])))
  row, = _Run(tmp_path, [unroll], total_frames=100, num_fresh=1).rows
  assert row['policy_lag'] == 0
  assert row['replayed/policy_lag'] == 4  # The mean of 2 and 6.
  assert row['replayed/foreign_share'] == 0.25


def test_player_plays_refused_unrolls_anew_but_not_those_of_other_agents():
  refusals = unroll_filter.Refusals()
  player = loop.Player(None, 1, 4, refusals, None, num_played=4)
  refusals.add(0, unroll_filter.NOT_FINITE, agent=1)
  assert not player.lacks(1)
  refusals.add(0, unroll_filter.NOT_FINITE)
  assert player.lacks(1)
