"""The table by hand, of two levels."""

import pytest

from impala_tf.suites import report
from impala_tf.suites import suite as suite_lib

SUITE = suite_lib.Suite(
    name='toy', title='Toy-2',
    levels=('toy/easy', 'toy/hard'), train_levels=('toy/easy', 'toy/hard'),
    random={'toy/easy': 0., 'toy/hard': -10.},
    human={'toy/easy': 10., 'toy/hard': 10.},
    paper={'Theirs': {'toy/easy': 20., 'toy/hard': -5.},
           'Others': {'toy/easy': 7.25}},
    episodes=1, decimals=2, package='toy', install='', note='A note.')


def test_table_is_as_by_hand():
  # Normalised: ours 0.5 and 1.25, theirs 2 and 0.25.
  text = report.markdown(SUITE, {'toy/hard': 15., 'toy/easy': 5.})
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
      '', 'Levels of Toy-2: 2 of 2 scored. A note.']


def test_part_of_the_suite_is_shown_and_not_summed_up():
  lines = report.markdown(SUITE, {'toy/hard': 15.}).splitlines()
  assert lines[2] == '| easy | – | 10.00 | 0.00 | 20.00 | 7.25 | – |'
  assert lines[4] == (
      '| **human-normalised median** | – | 100.0% | 0.0% | 112.5% | – |  |')
  assert lines[-1] == 'Levels of Toy-2: 1 of 2 scored. A note.'


def test_foreign_level_is_refused():
  with pytest.raises(ValueError, match="not scored in Toy-2: 'toy/other'"):
    report.markdown(SUITE, {'toy/easy': 1., 'toy/other': 1.})
