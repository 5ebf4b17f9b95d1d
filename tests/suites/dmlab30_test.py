"""The suite against the paper's tables."""

import pytest

from impala_tf.suites import dmlab30


def test_thirty_levels_of_which_two_are_trained_in_another_variant():
  assert len(set(dmlab30.SUITE.levels)) == len(dmlab30.SUITE.levels) == 30
  assert len(set(dmlab30.SUITE.train_levels)) == 30
  pairs = zip(dmlab30.SUITE.train_levels, dmlab30.SUITE.levels)
  assert [pair for pair in pairs if pair[0] != pair[1]] == [
      ('dmlab30/rooms_collect_good_objects_train',
       'dmlab30/rooms_collect_good_objects_test'),
      ('dmlab30/rooms_exploit_deferred_effects_train',
       'dmlab30/rooms_exploit_deferred_effects_test')]


def test_names_are_the_simulators_where_the_paper_misspells_them():
  names = ' '.join(dmlab30.SUITE.levels)
  assert names.count('dmlab30/psychlab_') == 4
  assert names.count('_three_opponents_') == 2
  assert 'pysch' not in names and 'oponents' not in names


@pytest.mark.parametrize('level, human, random, experts, multitask', [
    # Table B.1: the first, one of the middle, and the last.
    ('rooms_collect_good_objects_test', 10., .1, 9., 5.8),
    ('lasertag_three_opponents_small', 31.5, -.1, 19.1, 11.3),
    ('explore_object_rewards_many', 106.7, 2.4, 58.7, 62.6)])
def test_scores_are_those_of_table_b1(level, human, random, experts, multitask):
  level = f'dmlab30/{level}'
  assert dmlab30.SUITE.human[level] == human
  assert dmlab30.SUITE.random[level] == random
  assert dmlab30.SUITE.paper['IMPALA-Experts'][level] == experts
  assert dmlab30.SUITE.paper['IMPALA'][level] == multitask


@pytest.mark.parametrize('column, exact, printed', [
    ('IMPALA-Experts', 44.44, 44.5), ('IMPALA', 49.34, 49.4)])
def test_sums_of_table_b1_come_out_but_for_rounding(column, exact, printed):
  suite = dmlab30.SUITE
  agent = {'IMPALA-Experts': 'IMPALA-Experts, deep',
           'IMPALA': 'IMPALA, deep, PBT'}[column]
  assert suite.published[agent] == {'mean_capped': printed / 100}
  mean = 100 * suite.summary(suite.paper[column]).mean_capped
  assert mean == pytest.approx(exact, abs=0.005)
  # Half of the last digit of the sum, and of each score that it is made of.
  ranges = [suite.human[level] - suite.random[level] for level in suite.levels]
  rounding = 0.05 + 100 * sum(0.05 / r for r in ranges) / 30
  assert rounding < 0.17
  assert abs(mean - printed) < rounding
