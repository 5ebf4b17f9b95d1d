"""The normaliser's variables, from the first observations on."""

import numpy as np
import tensorflow as tf

from impala_tf.agents import observation_normaliser

_SHAPE = (2,)
_BATCH = np.random.default_rng(0).normal(
    [7., -100.], [0.5, 20.], [6, 5, 2]).astype(np.float32)


def test_normaliser_changes_nothing_before_the_first_update():
  normaliser = observation_normaliser.ObservationNormaliser(_SHAPE)
  observations = np.array([[3.5, -1.], [0., 9.]], np.float32)
  np.testing.assert_allclose(normaliser(observations), observations, rtol=1e-6)


def test_updates_make_batches_of_mean_0_and_deviation_1():
  normaliser = observation_normaliser.ObservationNormaliser(_SHAPE)
  for half in np.split(_BATCH, 2):
    normaliser.update(normaliser.totals(tf.constant(half)))
  normalised = normaliser(_BATCH).numpy()
  np.testing.assert_allclose(normalised.mean(axis=(0, 1)), 0, atol=1e-5)
  np.testing.assert_allclose(normalised.std(axis=(0, 1)), 1, rtol=1e-5)


def test_moments_are_published_and_not_trained():
  normaliser = observation_normaliser.ObservationNormaliser(_SHAPE)
  normaliser.update(normaliser.totals(tf.constant(_BATCH)))
  assert not normaliser.trainable_variables
  other = observation_normaliser.ObservationNormaliser(_SHAPE)
  for variable, value in zip(other.published_variables,
                             normaliser.published_variables):
    variable.assign(value)
  np.testing.assert_array_equal(other(_BATCH), normaliser(_BATCH))
