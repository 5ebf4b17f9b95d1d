"""Running moments against those of all observations at once, in float64."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.maths import running_moments

T, B, F = 5, 4, 3
_NOTHING = running_moments.Moments(
    tf.zeros([F], tf.float64), tf.ones([F], tf.float64))


def _batch(seed):
  """Makes observations [T, B, F] that differ in place and scale."""
  return np.random.default_rng(seed).normal([1e5 + seed, -0.3, 40.], [
      1., 1e-3, 5. + seed], [T, B, F]).astype(np.float32)


def _run(batches, num_replicas=1):
  count, moments = tf.constant(0., tf.float64), _NOTHING
  for batch in batches:
    shares = [running_moments.totals(tf.constant(share), moments.mean)
              for share in np.split(batch, num_replicas, axis=1)]
    sums = running_moments.Totals(*(tf.add_n(parts) for parts in zip(*shares)))
    moments = running_moments.update(count, moments, sums)
    count += sums.count
  return moments


@pytest.mark.parametrize('num_replicas', [1, 2])
def test_moments_are_those_of_all_observations(num_replicas):
  batches = [_batch(seed) for seed in range(30)]
  everything = np.float64(np.reshape(batches, [-1, F]))
  mean, variance = _run(batches, num_replicas)
  assert mean.dtype == variance.dtype == tf.float64
  np.testing.assert_allclose(mean, everything.mean(axis=0), rtol=1e-12)
  # A million times smaller than the squares of which they are differences.
  np.testing.assert_allclose(variance, everything.var(axis=0), rtol=1e-6)


def test_no_observations_change_nothing():
  sums = running_moments.Totals(*[tf.zeros([], tf.float64)] * 3)
  new = running_moments.update(tf.zeros([], tf.float64), _NOTHING, sums)
  for x, y in zip(new, _NOTHING):
    np.testing.assert_array_equal(x, y)


def test_normalised_observations_are_deviations_within_bounds():
  moments = _run([_batch(0), _batch(1)])
  batch = _batch(2)
  batch[0, 0], batch[0, 1] = [2e5, 0., 40.], [0., -1., 40.]
  expected = np.clip((batch - np.float64(moments.mean))
                     / np.sqrt(moments.variance), -10, 10)
  normalised = running_moments.normalise(tf.constant(batch), moments)
  assert normalised.dtype == tf.float32
  # float32 holds numbers near 1e5 to 0.008.
  np.testing.assert_allclose(normalised, expected, atol=0.02)
  np.testing.assert_array_equal(normalised[0, :2, :2], [[10, 10], [-10, -10]])


def test_number_that_never_changes_becomes_0():
  batch = np.full([T, B, F], 0.1, np.float32)
  np.testing.assert_array_equal(running_moments.normalise(
      tf.constant(batch), _run([batch, batch])), 0 * batch)


def test_observations_of_another_shape_are_refused():
  with pytest.raises(ValueError, match=r'must be \[T, B\] and then'):
    running_moments.totals(tf.zeros([T, B]), _NOTHING.mean)
