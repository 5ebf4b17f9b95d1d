"""Tests of tables of two levels, against tables made by hand."""

from impala_tf.plots import suite_tables
from tests.fixtures import toy_suite

SUITE = toy_suite.SUITE


def test_tables_are_as_by_hand():
  # Normalised: ours 0.5 and 1.25, theirs 2 and 0.25.
  text = suite_tables.markdown(
      SUITE, {'ours': {'toy/hard': 15., 'toy/easy': 5.}})
  assert text.splitlines() == [
      '| level | ours | human | random | Theirs | Others | ours, normalised |',
      '|---|---:|---:|---:|---:|---:|---:|',
      '| easy | 5.00 | 10.00 | 0.00 | 20.00 | 7.25 | 50.0% |',
      '| hard | 15.00 | 10.00 | -10.00 | -5.00 | – | 125.0% |',
      '| **human-normalised median** '
      '| 87.5% | 100.0% | 0.0% | 112.5% | – |  |',
      '| **human-normalised mean** '
      '| 87.5% | 100.0% | 0.0% | 112.5% | – |  |',
      '| **human-normalised mean, capped at 100%** '
      '| 75.0% | 100.0% | 0.0% | 62.5% | – |  |',
      '', 'Levels of Toy-2: 2 of 2 scored. A note.', '',
      '| human-normalised | median | mean | mean, capped at 100% |',
      '|---|---:|---:|---:|',
      '| **ours** | 87.5% | 87.5% | 75.0% |',
      '| Theirs | 112.0% | – | 60.0% |',
      '| Nobody | – | 50.0% | – |',
      '', 'In bold: ours. The others are table 9 of the paper, as it prints '
      'them.']


def test_several_agents_have_a_column_each_whatever_they_are_called():
  lines = suite_tables.markdown(SUITE, {
      'human': {'toy/hard': 0.}, 'b': {'toy/hard': 20., 'toy/easy': 1.}}
                          ).splitlines()
  for line in (
      '| level | human | b | human | random | Theirs | Others '
      '| human, normalised | b, normalised |',
      '| easy | – | 1.00 | 10.00 | 0.00 | 20.00 | 7.25 | – | 10.0% |',
      '| **human-normalised median** '
      '| – | 80.0% | 100.0% | 0.0% | 112.5% | – |  |  |',
      'Levels of Toy-2: 1 of 2 scored (human), 2 of 2 scored (b). A note.',
      '| **human** | – | – | – |', '| **b** | 80.0% | 80.0% | 55.0% |'):
    assert line in lines
