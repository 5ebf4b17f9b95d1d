"""Means leave out what is unknown; those of a level count its unrolls alone."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.runs import metrics
from impala_tf.runs import training_log
from impala_tf.suites import atari57
from impala_tf.suites import dmlab30

PONG, BREAKOUT, OTHER = 'atari/pong', 'atari/breakout', 'catch'
T, FRAMES = 2, 80


def _log(*levels):
  return training_log.LevelLog(
      levels, tf.Variable(np.zeros(len(levels), np.int64)), FRAMES)


def _add(log, level_index, ends, lags=None):
  """Adds unrolls of some levels; `ends` are {(t, b): return}."""
  num = len(level_index)
  is_first = np.zeros((T, num), bool)
  returns = np.full((T, num), -99., np.float32)
  for place, value in ends.items():
    is_first[place], returns[place] = True, value
  log.add(is_first, returns, np.array(lags or [0] * num),
          np.array(level_index, np.int32), {})


def test_window_takes_ended_episodes_with_finite_returns_and_known_numbers():
  window = training_log.EpisodeWindow(100)
  is_first = np.array([[True, True], [True, True], [False, False]])
  none = metrics.MISSING
  returns = np.array([[np.nan, 2.], [np.inf, 4.], [1., 1.]])
  added = window.add(is_first, returns, {
      'score': np.array([[5., none], [7., 8.], [9., 9.]], np.float32),
      'none': np.full((3, 2), none)})
  assert added.tolist() == [[False, True], [False, True], [False, False]]
  assert window.num_episodes == 4
  assert window.means() == {'episode_return': 3., 'score': 8.}


def test_mean_of_a_full_window_leaves_out_as_many_games_as_environments():
  for is_resumed, first_rows in (False, [0., 0.5]), (True, [None] * 3 + [3.]):
    window = training_log.EpisodeWindow(2, num_envs=3, is_resumed=is_resumed)
    means, rows = [], []
    for value in range(6):
      window.add(np.ones([1, 1], bool), np.array([[value]]), {})
      means.append(window.mean_return)
      rows.append(window.means().get('episode_return'))
    assert means == [None, None, None, None, 3.5, 4.5]
    assert rows[:len(first_rows)] == first_rows
    assert window.num_episodes == (3 if is_resumed else 6)
  window = training_log.EpisodeWindow(2, num_envs=3, is_resumed=True)
  window.add(np.ones([5, 1], bool), np.zeros([5, 1]), {})
  # All of a batch are left out, and none of them counts.
  assert window.num_episodes == 0 and not window.means()


def test_update_without_unrolls_of_a_kind_says_nothing_of_it():
  interval = training_log.Interval(4)
  nan = float('nan')
  for own, everybodys in ((2., 1.), (nan, nan), (4., 1.)):
    interval.add({'own/x': own, 'foreign/x': nan, 'x': everybodys},
                 np.zeros(1, np.int64), .25)
  row = interval.means(10, 1.)
  assert (row['frames_per_sec'], row['learner_wait_share']) == (6., .75)
  assert row['own/x'] == 3. and 'foreign/x' not in row
  assert np.isnan(row['x'])


def test_frames_lags_and_returns_are_credited_to_their_level():
  frames = tf.Variable(np.array([1000, 0, 0], np.int64))
  log = training_log.LevelLog((PONG, BREAKOUT, OTHER), frames, FRAMES)
  # A return that is not finite is left out.
  _add(log, [0, 2, 0, 2], {
      (0, 0): 5., (1, 2): 7., (1, 3): -1., (0, 1): np.nan},
       [1, 10, 3, 20])
  _add(log, [2], {}, [60])
  assert log.finish() == {
      'level/atari/pong/frames': 1000 + 2 * FRAMES,
      'level/atari/pong/episode_return': 6.,
      'level/atari/pong/policy_lag': 2.,
      'level/atari/breakout/frames': 0,
      'level/catch/frames': 3 * FRAMES,
      'level/catch/episode_return': -1.,
      'level/catch/policy_lag': 30.}
  assert frames.numpy().tolist() == [1160, 0, 240]
  # Lags are of what came since, returns of the last episodes.
  _add(log, [0], {}, [4])
  row = log.finish()
  assert row['level/atari/pong/policy_lag'] == 4.
  assert row['level/atari/pong/episode_return'] == 6.
  assert 'level/catch/policy_lag' not in row


def test_returns_are_of_the_last_twenty_episodes_of_a_level():
  log = _log(PONG, OTHER)
  _add(log, [1], {(0, 0): 50.})
  for i in range(25):
    _add(log, [0], {(0, 0): float(i)})
  row = log.finish()
  assert row['level/atari/pong/episode_return'] == np.mean(range(5, 25))
  assert row['level/catch/episode_return'] == 50.


def _between(level, fraction, suite=atari57.SUITE):
  """Returns a score between a random player's (0) and the human's (1)."""
  random, human = (
      column[suite.scored_level(level)] for column in (suite.random,
                                                        suite.human))
  return random + fraction * (human - random)


def test_headline_is_the_capped_mean_once_all_of_the_suite_have_a_return():
  log = _log(PONG, BREAKOUT, OTHER)  # Catch is in no suite: never waited for.
  _add(log, [0], {(0, 0): _between(PONG, 3.)})
  assert metrics.HEADLINE not in log.finish()
  _add(log, [1], {(0, 0): _between(BREAKOUT, -0.5)})
  # Pong counts as 1, not 3; nothing holds Breakout up at 0.
  assert log.finish()[metrics.HEADLINE] == pytest.approx(.25, abs=1e-5)


def test_trained_variant_has_its_score_and_a_level_of_no_suite_none():
  level = 'dmlab30/rooms_collect_good_objects_train'
  log = _log(level, OTHER)
  _add(log, [0], {(0, 0): _between(level, .5, dmlab30.SUITE)})
  assert log.finish()[metrics.HEADLINE] == pytest.approx(.5, abs=1e-5)
  log = _log(OTHER)
  _add(log, [0], {(0, 0): 1.})
  assert metrics.HEADLINE not in log.finish()
