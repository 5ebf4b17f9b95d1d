"""PopArt's head keeps its values while its moments move."""

import numpy as np
import tensorflow as tf

from impala_tf.agents import layers
from impala_tf.agents import popart_head
from impala_tf.maths import popart

_TASK = np.array([0, 1, 1], np.int32)
_TARGETS = np.array([[5., -2., 4.]], np.float32)  # [T, B]
_FEATURES = np.array([[1., 2.], [-3., 0.5]], np.float32)


def _head():
  linear = layers.Linear(3)
  linear(tf.zeros([1, 2]))  # Creates the variables.
  return linear, popart_head.PopArtHead(linear)


def _totals(moments):
  return popart.totals(
      tf.constant(_TARGETS), tf.ones([1, 3]), tf.constant(_TASK), moments)


def test_head_begins_as_if_there_were_no_popart():
  _, head = _head()
  assert head.num_tasks == 3
  np.testing.assert_array_equal(head.moments.mean, np.zeros(3))
  np.testing.assert_array_equal(head.moments.variance, np.ones(3))


def test_update_moves_the_moments_and_keeps_every_value():
  linear, head = _head()

  def values():
    moments = head.moments
    return np.sqrt(moments.variance) * linear(_FEATURES) + moments.mean

  before, old = values().numpy(), head.moments
  normalised = linear(_FEATURES).numpy()
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
