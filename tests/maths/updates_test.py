"""The annealed rate and clipped gradients, by their definitions."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.maths import updates


def test_annealing_is_a_line_to_zero_and_stays_there():
  total = 200_000_000
  for frames, expected in ((0, 6e-4), (total // 4, 4.5e-4), (total - 1, 3e-12),
                           (total, 0.0), (total + 640, 0.0), (10 * total, 0.0)):
    for x in frames, tf.constant(frames, tf.int64):
      np.testing.assert_allclose(
          6e-4 * updates.remaining_share(x, total, 1), expected, rtol=1e-6)


@pytest.mark.parametrize('max_norm,scale', [(None, 1.0), (13.0, 1.0),
                                            (20.0, 1.0), (6.5, 0.5)])
def test_gradients_are_scaled_together_and_the_norm_is_from_before(
    max_norm, scale):
  gradients = [tf.constant([3.0, 4.0]), tf.constant([[12.0]])]
  clipped, norm = updates.clip_by_global_norm(gradients, max_norm)
  np.testing.assert_allclose(norm, 13.0)
  for x, y in zip(clipped, gradients):
    np.testing.assert_allclose(x, scale * y, rtol=1e-6)


@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_shows_in_the_norm(bad):
  gradients = [tf.constant([1.0]), tf.constant([bad])]
  clipped, norm = updates.clip_by_global_norm(gradients, 1.0)
  assert not np.isfinite(norm) and np.all(np.isnan(clipped))
  unclipped, norm = updates.clip_by_global_norm(gradients, None)
  assert not np.isfinite(norm)
  np.testing.assert_array_equal(unclipped, gradients)
