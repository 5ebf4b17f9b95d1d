"""Figures of a report, with numbers that can be checked by hand."""

import numpy as np

from impala_tf.plots import figures
from impala_tf.suites import atari57

PONG, BREAKOUT = 'atari/pong', 'atari/breakout'


def test_bars_are_human_normalised_scores_of_levels_that_we_have():
  suite = atari57.SUITE
  figure = figures.scores(suite, {
      'a': {PONG: -20.7, BREAKOUT: 30.5}, 'b': {BREAKOUT: 59.3}})
  axes, = figure.axes
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
  # Each bar of its own height and place.
  places = [bar.get_y() for container in axes.containers for bar in container]
  assert len(set(np.round(places, 6))) == len(places)
  assert axes.get_xscale() == 'symlog'  # Some are 27 times the human.
