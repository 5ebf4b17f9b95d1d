"""Summaries by hand of three levels; one is trained on in another variant."""

import pytest

from impala_tf.suites import suite as suite_lib

SUITE = suite_lib.Suite(
    name='toy', title='Toy-3',
    levels=('toy/a', 'toy/b_test', 'toy/c'),
    train_levels=('toy/a', 'toy/b_train', 'toy/c'),
    random={'toy/a': 0., 'toy/b_test': -10., 'toy/c': 100.},
    human={'toy/a': 10., 'toy/b_test': 10., 'toy/c': 300.},
    paper={}, published={}, published_in='', episodes=1, decimals=1,
    note='')


def test_summary_is_as_by_hand():
  # Normalised: 4, 0.25 and -0.5.
  scores = {'toy/c': 0., 'toy/a': 40., 'toy/b_test': -5.}
  assert SUITE.summary(scores) == suite_lib.Summary(
      median=0.25, mean=3.75 / 3, mean_capped=(1 + 0.25 - 0.5) / 3)


def test_trained_level_has_the_references_of_the_scored_one():
  assert SUITE.human_normalised_score('toy/b_train', 0.) == 0.5
  trained = SUITE.summary({'toy/a': 1., 'toy/b_train': 0., 'toy/c': 200.})
  assert trained == SUITE.summary(
      {'toy/a': 1., 'toy/b_test': 0., 'toy/c': 200.})


def test_level_of_another_suite_is_refused():
  with pytest.raises(ValueError, match="'toy/d' is no level of Toy-3"):
    SUITE.human_normalised_score('toy/d', 1.)


def test_columns_are_read_without_their_empty_cells():
  _, human, paper = suite_lib.read_scores('atari57_scores.csv', 'atari')
  # Table C.1.
  assert paper['ACKTR']['atari/alien'] == 3197.10
  assert paper['IMPALA (deep)']['atari/zaxxon'] == 32935.50
  assert 'atari/defender' not in paper['ACKTR']  # N/A.
  assert len(paper['ACKTR']) == 44 and len(human) == 57
