"""Populations are read as their members wrote them."""

import csv
import io
import os

import pytest

from impala_tf.cli import report
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
  assert sweep_directory.POPULATION.is_in(path)
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
  assert '| **a** | 0.950 | 0.72 | 2 | 0 | a | 0.00144 | 0.1 | 0.01 |' in table
  assert '| b | 0.900 | 0.62 | 1 | 1 | a → b | 0.0012 | 0.1 | 0.01 |' in table


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


def test_best_of_equally_fit_ones_has_the_higher_return(tmp_path):
  path = str(written_populations.make(
      tmp_path / 'p', sweep_directory.POPULATION))
  run_dir = os.path.join(path, 'runs', 'catch', 'default', 'seed_1')
  event, = written_populations.EVENTS['b']
  storage.append_event(
      f'{run_dir}/b', event._replace(evolution=2, partner_score=0.95))
  assert [p.best for p in populations.load(path)] == ['a', 'a']
  with open(f'{run_dir}/b/metrics.jsonl', 'a', encoding='utf-8') as file:
    file.write('{"frames": 310, "episode_return": 9.0}\n')
  assert [p.best for p in populations.load(path)] == ['b', 'a']


def test_best_is_none_that_has_failed(tmp_path):
  path = str(written_populations.make(
      tmp_path / 'p', sweep_directory.POPULATION))
  run_dir = os.path.join(path, 'runs', 'catch', 'default', 'seed_2')
  for member, best in ('a', 'b'), ('b', 'a'):  # In the end all have failed.
    storage.set_failed(os.path.join(run_dir, member), True)
    assert [p.best for p in populations.load(path)] == ['a', best]


def test_population_that_has_not_begun_is_refused(tmp_path, refused):
  with sweep_directory.claim(
      str(tmp_path), written_populations.CONFIG,
      {'catch': written_populations.TASK}, sweep_directory.POPULATION):
    pass
  assert 'no member of' in refused(report.main, tmp_path)
