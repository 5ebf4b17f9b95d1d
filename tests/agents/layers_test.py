"""Layers compute as Keras's do, and lose no gradients in bfloat16."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.agents import layers


def _policy(precision):
  return tf.keras.mixed_precision.Policy(precision)


# 24 images of 24 x 24 have 13,824 positions; a sum in bfloat16 of ones stops
# at 256.
_MAKE = {
    'dense': (lambda p: layers.Dense(5, 1.0, dtype=_policy(p)), (4000, 3)),
    'convolution': (
        lambda p: layers.Conv2D(5, 3, 1, 1.0, padding='same', dtype=_policy(p)),
        (24, 24, 24, 3)),
    'pixels': (
        lambda p: layers.PixelConv2D(
            5, 3, 1, 1.0, padding='same', dtype=_policy(p)),
        (24, 24, 24, 3))}


@pytest.mark.parametrize('in_graph', [False, True])
@pytest.mark.parametrize('kind', _MAKE)
def test_bias_in_bfloat16_gets_its_whole_gradient(kind, in_graph):
  make, shape = _MAKE[kind]
  layer = make('mixed_bfloat16')
  inputs = np.random.default_rng(0).integers(256, size=shape).astype(np.uint8)
  if kind != 'pixels':
    inputs = inputs.astype(np.float32) / 255
  outputs = layer(inputs)
  assert outputs.dtype == tf.bfloat16
  layer.bias.assign(tf.fill([5], 100.))  # No unit is off.
  factors = np.random.default_rng(1).random(outputs.shape) + 0.5
  factors = tf.cast(factors, tf.bfloat16)

  def gradients():
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(tf.cast(layer(inputs) * factors, tf.float32))
    return tape.gradient(loss, layer.bias)

  actual = (tf.function(gradients) if in_graph else gradients)()
  assert actual.dtype == tf.float32
  expected = tf.cast(factors, tf.float64).numpy().reshape([-1, 5]).sum(axis=0)
  np.testing.assert_allclose(actual, expected, rtol=0.005)


@pytest.mark.parametrize('kind', ['dense', 'convolution'])
def test_layer_in_float32_is_that_of_keras_to_the_bit(kind):
  make, shape = _MAKE[kind]
  layer = make('float32')
  inputs = np.random.default_rng(0).normal(size=shape).astype(np.float32)
  layer(inputs)
  layer.bias.assign(tf.random.stateless_normal([5], [1, 2]))
  theirs = (tf.keras.layers.Dense(5, activation='relu') if kind == 'dense' else
            tf.keras.layers.Conv2D(5, 3, padding='same'))
  theirs(inputs)
  theirs.set_weights(layer.get_weights())

  def outputs_and_gradients(any_layer):
    with tf.GradientTape() as tape:
      outputs = any_layer(inputs)
      loss = tf.reduce_sum(outputs**2)
    return outputs, tape.gradient(loss, any_layer.trainable_variables)

  for x, y in zip(tf.nest.flatten(outputs_and_gradients(layer)),
                  tf.nest.flatten(outputs_and_gradients(theirs))):
    assert np.abs(x).max() > 0
    np.testing.assert_array_equal(x, y)


def test_first_convolution_sees_bytes_divided_by_255():
  layer = layers.PixelConv2D(2, 1, 1, 1.0)
  layer(tf.zeros([1, 1, 1, 1], tf.uint8))
  layer.set_weights([np.float32([[[[255., 51.]]]]), np.float32([0., 1.])])
  outputs = layer(tf.constant([[[[100]]]], tf.uint8))
  np.testing.assert_allclose(outputs[0, 0, 0], [100., 21.], rtol=1e-6)


def test_gain_multiplies_initial_weights():

  def initial(gain):
    tf.random.set_seed(1)
    return layers.fan_in_truncated_normal([4, 3, 2], gain=gain).numpy()

  np.testing.assert_array_equal(initial(2.0), 2 * initial(1.0))
  # 12 inputs; truncated at two standard deviations.
  assert 0 < np.abs(initial(1.0)).max() < 2 / np.sqrt(12)
