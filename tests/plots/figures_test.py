"""Figures of a report, with numbers that can be checked by hand."""

import numpy as np
import pytest

from impala_tf.plots import figures
from impala_tf.plots import populations
from impala_tf.suites import atari57
from tests.fixtures import written_populations

PONG, BREAKOUT = 'atari/pong', 'atari/breakout'


def test_bars_are_human_normalised_scores_of_levels_that_we_have():
  suite = atari57.SUITE
  axes, = figures.scores(suite, {
      'a': {PONG: -20.7, BREAKOUT: 30.5}, 'b': {BREAKOUT: 59.3}}).axes
  assert [t.get_text() for t in axes.get_yticklabels()] == ['breakout', 'pong']
  widths = {container.get_label(): [bar.get_width() for bar in container]
            for container in axes.containers}
  columns = ('IMPALA (deep, multi-task)', 'IMPALA (shallow)', 'IMPALA (deep)')
  assert list(widths) == ['a', 'b', *(f'{name}, paper' for name in columns)]
  np.testing.assert_allclose(widths['a'], [1, 0], atol=1e-9)
  np.testing.assert_allclose(widths['b'], [2], atol=1e-9)
  for name in columns:
    np.testing.assert_allclose(widths[f'{name}, paper'], [
        suite.human_normalised_score(level, suite.paper[name][level])
        for level in (BREAKOUT, PONG)])
  # No bar hides another.
  places = [bar.get_y() for container in axes.containers for bar in container]
  assert len(set(np.round(places, 6))) == len(places)
  assert axes.get_xscale() == 'symlog'  # Some are 27 times the human.


@pytest.fixture(name='panels', scope='module')
def _panels(tmp_path_factory):
  path = written_populations.make(tmp_path_factory.mktemp('p') / 'p')
  # Of member b, which has copied a.
  population = populations.load(str(path))[0]._replace(best='b')
  figure = figures.population(population)
  return {axes.get_title(): axes for axes in figure.axes}


def _bold(axes):
  return [line for line in axes.lines if line.get_linewidth() == 2.]


def test_bold_lines_are_put_together_by_backtracking(panels):
  line, = _bold(panels['fitness'])
  expected = [(50, 0.22), (100, 0.32), (200, 0.42), (250, 0.52), (300, 0.62)]
  assert np.array(line.get_xydata()) == pytest.approx(np.array(expected))
  for name, expected in (
      ('learning rate', [(0, 1e-3), (100, 1e-3 * 1.2), (150, 1e-3 * 1.2),
                         (300, 1e-3 * 1.2)]),
      ('family tree', [(0, 0), (100, 0), (150, 1), (300, 1)])):
    line, = _bold(panels[name])
    assert [tuple(point) for point in line.get_xydata()] == expected
  arrow, = panels['family tree'].texts  # One for each copy.
  assert arrow.xy == (150, 1) and arrow.xyann == (150, 0)


def test_copies_and_decisions_are_counted(panels):
  assert list(panels) == [
      'fitness', 'learning rate', 'epsilon', 'entropy cost', 'family tree',
      'decisions, copies']
  counts = {line.get_label(): line.get_ydata()[-1]
            for line in panels['decisions, copies'].lines}
  assert counts == {'decisions': 3, 'copies': 1}
