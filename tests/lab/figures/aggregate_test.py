"""Tests of the picture of human-normalised scores, by the kept runs."""

import numpy as np
import pytest

from impala_tf.suites import levels
from lab.figures import aggregate


@pytest.mark.parametrize('x, last', [('frames', 40e6), ('secs', 13162.)])
def test_curves_are_of_all_games_and_end_at_their_last_scores(x, last):
  points, scores = aggregate.curves(x)
  assert points[-1] == pytest.approx(last, rel=0.01)
  assert set(scores) == {'beam_rider', 'breakout', 'pong', 'qbert', 'seaquest',
                         'space_invaders'}
  ends = {game: score[-1] for game, score in scores.items()}
  # (score - random) / (human - random), table C.1's columns.
  suite = levels.SUITES['atari57']
  game = 'atari/qbert'
  mean = (14981. + 16953.) / 2  # Of two seeds.
  assert ends['qbert'] == pytest.approx(
      (mean - suite.random[game]) / (suite.human[game] - suite.random[game]))
  # Pong's run has ended long before.
  assert len(np.unique(scores['pong'][points > 0.9 * last])) == 1


def test_picture_has_curves_by_frames_and_time_and_a_profile():
  by_frames, by_time, profile = aggregate.draw().axes
  assert by_frames.get_xlabel() == 'environment frames'
  assert by_time.get_xlabel() == 'wall time, hours'
  ours, papers = (line.get_ydata() for line in profile.get_lines())
  assert ours[0] == papers[0] == 1 and np.all(np.diff(ours) <= 0)
