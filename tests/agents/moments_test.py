"""The variables of running moments: of observations, and of PopArt's head."""

import numpy as np
import tensorflow as tf

from impala_tf.agents import layers
from impala_tf.agents import moments as moments_lib

_SHAPE = (2,)
_BATCH = np.random.default_rng(0).normal(
    [7., -100.], [0.5, 20.], [6, 5, 2]).astype(np.float32)


def test_moments_are_published_and_not_trained():
  normaliser = moments_lib.ObservationNormaliser(_SHAPE)
  normaliser.update(normaliser.totals(tf.constant(_BATCH)))
  assert not normaliser.trainable_variables
  other = moments_lib.ObservationNormaliser(_SHAPE)
  for variable, value in zip(other.published_variables,
                             normaliser.published_variables):
    variable.assign(value)
  np.testing.assert_array_equal(other(_BATCH), normaliser(_BATCH))


def test_moments_are_no_parameters():
  linear = layers.Linear(3)
  linear(tf.zeros([1, 2]))  # Creates the variables.
  head = moments_lib.PopArtHead(linear)
  trained = {v.ref() for v in linear.trainable_variables}
  assert {v.ref() for v in head.trainable_variables} <= trained
