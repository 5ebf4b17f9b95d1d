"""Ancestries, against a small family that is written down by hand."""

import math

from impala_tf.pbt import lineage
from impala_tf.pbt import populations


def _event(evolution, frames, value, partner=None, at=(None, None)):
  """Makes a decision; `at` is the partner's evolution and frames, if copied."""
  copied = partner is not None
  return populations.Event(
      evolution, frames, frames, 0., partner or 'x', 0.5 if copied else None,
      *at, 'copy' if copied else None, {'h': 1.}, {'h': value})


# b copies a after a's first decision, c copies b after that.
_FAMILY = {
    'a': [_event(1, 100, 2.), _event(2, 200, 3.)],
    'b': [_event(1, 90, 5.), _event(2, 180, 2.4, 'a', (1, 100)),
          _event(3, 300, 2.8)],
    'c': [_event(1, 110, 7.), _event(2, 250, 2.6, 'b', (2, 180))]}


def test_ancestry_goes_back_through_copies_to_the_start():
  found = lineage.ancestry(_FAMILY, 'c')
  assert [stretch[:3] for stretch in found] == [
      ('a', 0, 100), ('b', 180, 180), ('c', 250, math.inf)]
  assert [len(stretch.events) for stretch in found] == [1, 1, 1]


def test_member_that_never_copied_is_its_own_ancestry():
  stretch, = lineage.ancestry(_FAMILY, 'a')
  assert stretch == ('a', 0, math.inf, tuple(_FAMILY['a']))


def test_curve_is_each_ancestors_own_and_moves_on():
  curves = {name: [(x, f'{name}{x}') for x in range(50, 401, 50)]
            for name in _FAMILY}
  assert lineage.backtracked(lineage.ancestry(_FAMILY, 'b'), curves) == [
      (50, 'a50'), (100, 'a100'),
      *((x, f'b{x}') for x in (200, 250, 300, 350, 400))]


def test_elder_that_was_ahead_gives_way_to_the_younger():
  family = {'a': [_event(1, 500, 2.)], 'b': [_event(1, 300, 3., 'a', (1, 500))]}
  curves = {'a': [(x, 'a') for x in (100, 200, 300, 400, 500)],
            'b': [(x, 'b') for x in (100, 200, 300, 400)]}
  assert lineage.backtracked(lineage.ancestry(family, 'b'), curves) == [
      (100, 'a'), (200, 'a'), (300, 'a'), (400, 'b')]


def test_values_along_the_ancestry_are_those_that_held():
  assert lineage.values_along(lineage.ancestry(_FAMILY, 'b'), 'h') == [
      (0, 1.), (100, 2.), (180, 2.4), (300, 2.8)]
