"""Epsilon of the workers: its final values, their shares, and annealing."""

import numpy as np
import pytest

from impala_tf.maths import exploration


def test_epsilon_ends_at_each_value_as_often_as_in_the_paper():
  n = 20_000
  rng = np.random.default_rng(0)
  draws = [exploration.draw_final_epsilon(rng) for _ in range(n)]
  # Section 8: 0.1, 0.01 and 0.5 with probabilities 0.4, 0.3 and 0.3.
  for value, probability in ((.1, .4), (.01, .3), (.5, .3)):
    deviation = np.sqrt(probability * (1 - probability) / n)
    assert abs(draws.count(value) / n - probability) < 4 * deviation
  assert set(draws) == {.1, .01, .5}


@pytest.mark.parametrize('final, quarter', [
    (.1, .775), (.01, .7525), (.5, .875)])
def test_epsilon_falls_from_1_in_a_line_and_stays(final, quarter):
  for frames, expected in ((0, 1), (1_000_000, quarter), (4_000_000, final),
                           (4_000_005, final), (10**9, final)):
    assert exploration.annealed_epsilon(
        final, frames, 4_000_000) == pytest.approx(expected, abs=1e-12)
