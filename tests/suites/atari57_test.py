"""The suite against facts known from elsewhere."""

import pytest

from impala_tf.envs import atari
from impala_tf.suites import atari57


def test_there_are_57_levels_in_alphabetical_order():
  assert len(atari57.LEVELS) == len(set(atari57.LEVELS)) == 57
  assert list(atari57.LEVELS) == sorted(atari57.LEVELS)


def test_each_level_is_a_game_of_the_emulator():
  games = {f'atari/{game}' for game in atari.games()}
  assert not set(atari57.LEVELS) - games


def test_scores_are_those_of_the_literature():
  # Wang et al. 2016 (dueling networks), table 2.
  assert atari57.RANDOM_SCORES['atari/breakout'] == 1.7
  assert atari57.HUMAN_SCORES['atari/breakout'] == 30.5
  assert atari57.RANDOM_SCORES['atari/pong'] == -20.7
  assert atari57.HUMAN_SCORES['atari/pong'] == 14.6


@pytest.mark.parametrize('level', atari57.LEVELS)
def test_human_is_one_and_random_is_zero(level):
  human = atari57.HUMAN_SCORES[level]
  random = atari57.RANDOM_SCORES[level]
  assert human > random
  assert atari57.human_normalised_score(level, human) == 1
  assert atari57.human_normalised_score(level, random) == 0
  between = random + 0.25 * (human - random)
  assert atari57.human_normalised_score(level, between) == pytest.approx(0.25)


@pytest.mark.parametrize('level', ['atari/tetris', 'pong', 'catch', ''])
def test_unknown_level_is_refused(level):
  with pytest.raises(ValueError, match=repr(level)):
    atari57.human_normalised_score(level, 0)
