"""Populations are read as their members wrote them."""

import csv
import io
import math
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
  return str(written_populations.make(tmp_path_factory.mktemp('p') / 'p'))


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
  path = str(written_populations.make(tmp_path / 'p'))
  run_dir = os.path.join(path, 'runs', 'catch', 'default', 'seed_1')
  event, = written_populations.EVENTS['b']
  storage.append_event(
      f'{run_dir}/b', event._replace(evolution=2, partner_score=0.95))
  assert [p.best for p in populations.load(path)] == ['a', 'a']
  with open(f'{run_dir}/b/metrics.jsonl', 'a', encoding='utf-8') as file:
    file.write('{"frames": 310, "episode_return": 9.0}\n')
  assert [p.best for p in populations.load(path)] == ['b', 'a']


def test_best_is_none_that_has_failed(tmp_path):
  path = str(written_populations.make(tmp_path / 'p'))
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


# Ancestries, against a small family that is written down by hand.


def _event(evolution, frames, value, partner=None, at=(None, None)):
  """Makes a decision; `at` is the partner's evolution and frames, if copied."""
  copied = partner is not None
  return storage.Event(
      evolution, frames, frames, 0., partner or 'x', 0.5 if copied else None,
      *at, 'copy' if copied else None, {'h': 1.}, {'h': value})


# b copies a after a's first decision, c copies b after that.
_FAMILY = {
    'a': [_event(1, 100, 2.), _event(2, 200, 3.)],
    'b': [_event(1, 90, 5.), _event(2, 180, 2.4, 'a', (1, 100)),
          _event(3, 300, 2.8)],
    'c': [_event(1, 110, 7.), _event(2, 250, 2.6, 'b', (2, 180))]}


def test_ancestry_goes_back_through_copies_to_the_start():
  found = populations.ancestry(_FAMILY, 'c')
  assert [stretch[:3] for stretch in found] == [
      ('a', 0, 100), ('b', 180, 180), ('c', 250, math.inf)]
  assert [len(stretch.events) for stretch in found] == [1, 1, 1]


def test_ancestry_ends_where_a_member_was_deleted_or_trained_anew():
  assert populations.ancestry({'c': _FAMILY['c']}, 'c') == [
      ('c', 0, math.inf, tuple(_FAMILY['c']))]
  copies = {'a': [_event(1, 90, 5., 'b', (1, 50)),
                  _event(2, 180, 2.4, 'gone', (1, 100))], 'b': []}
  assert [stretch.member for stretch in populations.ancestry(copies, 'a')] == [
      'a']  # Not b, whose parameters it has no more.
  anew = {**_FAMILY, 'a': [_event(1, 300, 2., 'c', (2, 250))]}
  assert [stretch.member for stretch in populations.ancestry(anew, 'c')] == [
      'c', 'a', 'b', 'c']


def test_member_that_never_copied_is_its_own_ancestry():
  stretch, = populations.ancestry(_FAMILY, 'a')
  assert stretch == ('a', 0, math.inf, tuple(_FAMILY['a']))


def test_curve_is_each_ancestors_own_and_moves_on():
  curves = {name: [(x, f'{name}{x}') for x in range(50, 401, 50)]
            for name in _FAMILY}
  stretches = populations.ancestry(_FAMILY, 'b')
  assert populations.backtracked(stretches, curves) == [
      (50, 'a50'), (100, 'a100'),
      *((x, f'b{x}') for x in (200, 250, 300, 350, 400))]


def test_elder_that_was_ahead_gives_way_to_the_younger():
  family = {'a': [_event(1, 500, 2.)], 'b': [_event(1, 300, 3., 'a', (1, 500))]}
  curves = {'a': [(x, 'a') for x in (100, 200, 300, 400, 500)],
            'b': [(x, 'b') for x in (100, 200, 300, 400)]}
  assert populations.backtracked(populations.ancestry(family, 'b'), curves) == [
      (100, 'a'), (200, 'a'), (300, 'a'), (400, 'b')]


def test_values_along_the_ancestry_are_those_that_held():
  assert populations.values_along(populations.ancestry(_FAMILY, 'b'), 'h') == [
      (0, 1.), (100, 2.), (180, 2.4), (300, 2.8)]
