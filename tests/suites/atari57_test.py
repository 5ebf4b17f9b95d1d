"""The suite against facts known from elsewhere."""

import pytest

from impala_tf.envs import atari
from impala_tf.suites import atari57


def test_57_levels_are_games_of_the_emulator_in_alphabetical_order():
  levels = atari57.SUITE.levels
  assert len(levels) == 57 and list(levels) == sorted(set(levels))
  assert set(levels) <= {f'atari/{game}' for game in atari.games()}


def test_scores_are_those_of_the_literature():
  suite = atari57.SUITE
  assert all(suite.human[level] > suite.random[level] for level in suite.levels)
  # Wang et al. 2016 (dueling networks), table 2.
  assert suite.random['atari/breakout'] == 1.7
  assert suite.human['atari/pong'] == 14.6


# Table 4: median and mean, in percent.
TABLE_4 = {
    'Reactor': (187, None),
    'IMPALA (shallow)': (93.2, 466.4),
    'IMPALA (deep)': (191.8, 957.6),
    'IMPALA (deep, multi-task)': (59.7, 176.9),
}


@pytest.mark.parametrize('column, mean', [
    ('IMPALA (shallow)', 707.4), ('IMPALA (deep)', 1592.5),
    ('IMPALA (deep, multi-task)', 179.4)])
def test_means_of_table_4_need_two_other_random_scores(column, mean):
  suite = atari57.SUITE
  scores = suite.paper[column]
  assert 100 * suite.summary(scores).mean == pytest.approx(mean, abs=0.05)

  def mean_with(**random):
    others = {f'atari/{game}': score for game, score in random.items()}
    other = suite._replace(random={**suite.random, **others})
    return 100 * other.summary(scores).mean

  _, expected = TABLE_4[column]
  assert mean_with(video_pinball=0) == pytest.approx(expected, abs=0.4)
  # Half of the last digit that is printed.
  assert mean_with(video_pinball=0, double_dunk=-18.55) == pytest.approx(
      expected, abs=0.05)


@pytest.mark.parametrize('column, agent', [
    ('Reactor', 'Reactor, experts'),
    ('IMPALA (shallow)', 'IMPALA, shallow, experts'),
    ('IMPALA (deep)', 'IMPALA, deep, experts'),
    ('IMPALA (deep, multi-task)', 'IMPALA, deep, multi-task')])
def test_published_sums_are_table_4s_and_medians_come_out_of_table_c1(
    column, agent):
  median, mean = TABLE_4[column]
  ours = 100 * atari57.SUITE.summary(atari57.SUITE.paper[column]).median
  assert round(ours, 1 if isinstance(median, float) else 0) == median
  sums = atari57.SUITE.published[agent]
  assert sums['median'] == pytest.approx(median / 100)
  assert mean is None or sums['mean'] == pytest.approx(mean / 100)
