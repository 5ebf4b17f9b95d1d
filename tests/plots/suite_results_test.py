"""Tests of results on a suite of two levels: kept, counted and refused."""

import json

import pytest

from impala_tf import config as config_lib
from impala_tf.plots import suite_results
from tests.fixtures import toy_suite

SUITE = toy_suite.SUITE


def _results(path, **conditions):
  return suite_results.SuiteResults(str(path), SUITE, conditions)


def test_sums_are_there_once_the_suite_is_whole(tmp_path):
  path = tmp_path / 'x.json'
  results = _results(path, frames=1)
  results.add('toy/hard', {'mean': 0., 'frames': 1})
  assert results.summary() == {}
  results.add('toy/easy', {'mean': 20., 'frames': 1})
  sums = {'human_normalised_median': 1.25, 'human_normalised_mean': 1.25,
          'human_normalised_mean_capped': 0.75}
  assert results.summary() == sums
  assert results.scores() == {'toy/easy': 20., 'toy/hard': 0.}
  contents = json.loads(path.read_text())
  assert sums.items() <= contents.items()
  assert contents['suite'] == 'toy' and contents['frames'] == 1
  assert '| easy | 20.00 |' in (tmp_path / 'x.md').read_text()
  assert sorted(p.name for p in tmp_path.iterdir()) == ['x.json', 'x.md']
  assert _results(path, frames=1).scores() == results.scores()


def test_other_conditions_are_kept_but_do_not_count(tmp_path):
  path = tmp_path / 'x.json'
  old = _results(path, frames=1, episodes=5)
  for level in SUITE.levels:
    old.add(level, {'mean': 1., 'frames': 1, 'episodes': 5})
  for conditions in ({'frames': 2, 'episodes': 5}, {'frames': 1, 'episodes': 6},
                     {'frames': 1, 'episodes': 5, 'seed': 0}):
    results = _results(path, **conditions)
    assert not results.has('toy/easy') and not results.has('toy/hard')
  results = _results(path, frames=2, episodes=5)
  results.add('toy/easy', {'mean': 3., 'frames': 2, 'episodes': 5})
  assert results.scores() == {'toy/easy': 3.} and results.summary() == {}
  assert '| hard | – |' in (tmp_path / 'x.md').read_text()
  assert _results(path, frames=1, episodes=5).scores() == {'toy/hard': 1.}
  # Games that one without end has left out would be left out again.
  results.add('toy/hard', {'mean': 3., 'frames': 2, 'episodes': 3,
                           'episodes_left': 2})
  assert results.has('toy/hard') and results.has('toy/easy')


@pytest.mark.parametrize('text', [
    '{', '[]', '{"suite": "other", "levels": {}}',
    '{"suite": "toy", "levels": {"toy/easy": {"mean": "?"}}}'])
def test_file_of_something_else_is_refused_and_stays(tmp_path, text):
  path = tmp_path / 'x.json'
  path.write_text(text)
  with pytest.raises(config_lib.UserError, match='holds no results of Toy-2'):
    _results(path)
  assert path.read_text() == text
