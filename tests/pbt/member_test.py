"""A member's state, its place, and decisions that are disturbed.

What holds of undisturbed ones, tests/roles/population_in_process_test.py says.
"""

import math
import types as python_types

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.pbt import member as member_lib
from impala_tf.pbt import populations
from impala_tf.runtime import interfaces


def test_level_without_episodes_keeps_its_last_mean():
  state = member_lib.State(2)
  assert math.isnan(state.mean_returns()[0])
  state.add(np.array([0, 0, 1]), np.array([1., 2., 5.]))
  state.begin(1, is_copy=False)
  assert state.evolution.numpy() == 1 and not state.episodes.numpy().any()
  state.add(np.array([0]), np.array([7.]))
  assert state.mean_returns().tolist() == [7., 5.]


def test_copied_parameters_have_no_mean_before_each_levels_first_episode():
  state = member_lib.State(2)
  # A return that is not finite stops no decision.
  state.add(np.array([0, 0, 1]), np.array([np.nan, 1., 5.]))
  assert state.mean_returns().tolist() == [1., 5.]
  assert state.episodes.numpy().tolist() == [1, 1]
  state.begin(1, is_copy=True)
  state.add(np.array([0]), np.array([7.]))
  first, second = state.mean_returns()
  assert first == 7. and math.isnan(second)


def test_better_member_whose_files_are_damaged_is_not_copied_and_named(
    tmp_path, caplog):
  other = tmp_path / 'other'
  (other / 'population').mkdir(parents=True)
  (tmp_path / 'own' / 'population').mkdir(parents=True)
  for ending in 'index', 'data-00000-of-00001':
    (other / 'population' / f'published-3.{ending}').write_bytes(b'half')
  published = populations.Published(3, 100, 0.9, 'published-3', {})
  populations.publish(str(other), published)
  assert member_lib.copy_better(
      str(tmp_path / 'own'), 'other', 0.1, 0.05, 'copied-1') == (
          published, None)
  assert 'Member other is better, but cannot be copied' in caplog.text


@pytest.mark.parametrize('run_dir, words', [
    ('/runs/c', '/runs/c is not the directory of a member'),
    ('gs://bucket/a', 'a path of a file system')])
def test_place_of_no_member_is_refused(run_dir, words):
  with pytest.raises(config_lib.ConfigError, match=words):
    member_lib.check_place(run_dir, config_lib.PopulationConfig(members='a,b'))


def test_lost_games_do_not_count_and_each_level_is_waited_for(tmp_path):
  state = member_lib.State(2)
  member = member_lib.Member(
      config_lib.Config(
          environment=config_lib.EnvironmentConfig(
              level='atari/pong,atari/breakout'),
          population=config_lib.PopulationConfig(
              members='own,b', burn_in_frames=0, decision_episodes=1)),
      str(tmp_path / 'own'), python_types.SimpleNamespace(
          num_frames=tf.Variable(0), agent=None, optimizer=None), state, None)
  steps = tf.constant([[0, 0], [7, 0]])  # One is over, and the other was lost.
  member.after_update(interfaces.Update(1, 10, {}, types.Unroll(
      types.EnvOutput(tf.zeros([2, 2], tf.uint8), (), (), (),
                      tf.cast(steps, tf.float32), steps),
      (), (), (), tf.constant([0, 1])), None, 0.))
  assert state.episodes.numpy().tolist() == [1, 0]
