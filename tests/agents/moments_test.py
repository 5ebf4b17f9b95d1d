"""The variables of running moments: of observations, and of PopArt's head."""

import numpy as np
import tensorflow as tf

from impala_tf.agents import layers
from impala_tf.agents import moments as moments_lib
from impala_tf.maths import popart

_SHAPE = (2,)
_BATCH = np.random.default_rng(0).normal(
    [7., -100.], [0.5, 20.], [6, 5, 2]).astype(np.float32)


def test_updates_make_batches_of_mean_0_and_deviation_1():
  normaliser = moments_lib.ObservationNormaliser(_SHAPE)
  # Nothing changes before the first, but values are clipped at 10.
  np.testing.assert_allclose(
      normaliser(_BATCH), np.maximum(_BATCH, -10), rtol=1e-6)
  for half in np.split(_BATCH, 2):
    normaliser.update(normaliser.totals(tf.constant(half)))
  normalised = normaliser(_BATCH).numpy()
  np.testing.assert_allclose(normalised.mean(axis=(0, 1)), 0, atol=1e-5)
  np.testing.assert_allclose(normalised.std(axis=(0, 1)), 1, rtol=1e-5)


def test_moments_are_published_and_not_trained():
  normaliser = moments_lib.ObservationNormaliser(_SHAPE)
  normaliser.update(normaliser.totals(tf.constant(_BATCH)))
  assert not normaliser.trainable_variables
  other = moments_lib.ObservationNormaliser(_SHAPE)
  for variable, value in zip(other.published_variables,
                             normaliser.published_variables):
    variable.assign(value)
  np.testing.assert_array_equal(other(_BATCH), normaliser(_BATCH))


# PopArt's head.


_TASK = np.array([0, 1, 1], np.int32)
_TARGETS = np.array([[5., -2., 4.]], np.float32)  # [T, B]
_FEATURES = np.array([[1., 2.], [-3., 0.5]], np.float32)


def _head():
  linear = layers.Linear(3)
  linear(tf.zeros([1, 2]))  # Creates the variables.
  return linear, moments_lib.PopArtHead(linear)


def _totals(moments):
  return popart.totals(
      tf.constant(_TARGETS), tf.ones([1, 3]), tf.constant(_TASK), moments)


def test_update_moves_the_moments_and_keeps_every_value():
  linear, head = _head()

  def values():
    moments = head.moments
    return np.sqrt(moments.variance) * linear(_FEATURES) + moments.mean

  before, old = values().numpy(), head.moments
  normalised = linear(_FEATURES).numpy()
  np.testing.assert_array_equal(before, normalised)
  head.update(_totals(old), 0.5)
  expected = popart.update(old, _totals(old), 0.5)
  np.testing.assert_allclose(head.moments.mean, expected.mean)
  np.testing.assert_allclose(head.moments.variance, expected.variance)
  assert np.all(head.moments.mean.numpy()[:2] != 0)
  assert np.any(linear(_FEATURES).numpy() != normalised)
  np.testing.assert_allclose(values(), before, rtol=1e-5, atol=1e-5)


def test_moments_are_no_parameters():
  linear, head = _head()
  trained = {v.ref() for v in linear.trainable_variables}
  assert {v.ref() for v in head.trainable_variables} <= trained
