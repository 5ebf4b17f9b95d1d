"""Populations are read as their members wrote them."""

import csv
import io
import pathlib

import pytest

from impala_tf import config as config_lib
from impala_tf.pbt import populations as storage
from impala_tf.plots import populations
from impala_tf.plots import tables
from impala_tf.runs import sweep_directory
from tests.fixtures import written_populations


@pytest.fixture(name='path', scope='module')
def _path(tmp_path_factory):
  return str(written_populations.make(
      tmp_path_factory.mktemp('p') / 'p', sweep_directory.POPULATION))


def test_population_has_decisions_and_fitness_of_each_member(path):
  assert populations.is_directory(path)
  first, second = populations.load(path)
  assert first.label == 'catch/default/seed_1'
  assert second.members == ['a', 'b']
  assert first.events == written_populations.EVENTS
  # Between random play, 0, and a human, 1.
  assert first.curves['a'] == [
      (f, pytest.approx(0.002 * f + 0.12)) for f in written_populations.FRAMES]


def test_best_is_the_fittest_and_has_its_ancestry(path):
  population = populations.load(path)[0]
  assert population.best == 'a'  # 0.95; b has 0.9, which it copied.
  assert [s.member for s in population.ancestry] == ['a']
  table = tables.population(population)
  assert '| **a** | 0.950 | 2 | 0 | a | 0.00144 | 0.1 | 0.01 |' in table
  assert '| b | 0.900 | 1 | 1 | a → b | 0.0012 | 0.1 | 0.01 |' in table


def test_decisions_are_rows_with_the_hyper_parameters_after_them(path):
  rows = list(csv.DictReader(io.StringIO(
      populations.decisions(populations.load(path)))))
  assert len(rows) == 2 * sum(map(len, written_populations.EVENTS.values()))
  copy, = (row for row in rows if row['is_copy'] == '1'
           and row['population'] == 'catch/default/seed_1')
  event, = written_populations.EVENTS['b']
  assert copy['member'] == 'b' and copy['partner'] == 'a'
  assert float(copy['score']) == event.score
  assert float(copy['learning_rate']) == event.after['learning_rate']


def test_best_is_that_of_the_file_where_there_is_one(path):
  """Ties are broken there by return, which decisions do not tell."""
  named = pathlib.Path(path, 'best.json')
  named.write_text('{"catch/default/seed_1": {"member": "b"}}')
  try:
    first, second = populations.load(path)
  finally:
    named.unlink()
  assert first.best == 'b' and [s.member for s in first.ancestry][-1] == 'b'
  assert second.best == 'a'


def test_best_is_none_that_has_failed(path):
  population = populations.load(path)[0]
  assert not population.failed
  assert population._replace(failed=['a']).best == 'b'
  assert population._replace(failed=['a', 'b']).best == 'a'


def test_member_that_has_failed_is_told_from_the_others(path):
  run_dir = str(pathlib.Path(path, 'runs', 'catch', 'default', 'seed_2', 'b'))
  storage.set_failed(run_dir, True)
  try:
    first, second = populations.load(path)
    assert (first.failed, second.failed) == ([], ['b'])
  finally:
    storage.set_failed(run_dir, False)


def test_population_that_has_not_begun_is_refused(tmp_path):
  with sweep_directory.claim(
      str(tmp_path), written_populations.CONFIG,
      {'catch': written_populations.TASK}, sweep_directory.POPULATION):
    pass
  with pytest.raises(config_lib.UserError, match='no member of .* has begun'):
    populations.load(str(tmp_path))
