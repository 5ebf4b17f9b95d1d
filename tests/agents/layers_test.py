"""Layers compute as Keras's do, and lose no gradients in bfloat16.

Variables of running moments are published, and not trained.
"""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.agents import layers

# 24 images of 24 x 24 have 13,824 positions; a sum in bfloat16 of ones stops
# at 256.
_IMAGES = 24, 24, 24, 3
_MAKE = {
    'dense': (lambda p: layers.Linear(5, tf.nn.relu, precision=p), (4000, 3)),
    'convolution': (
        lambda p: layers.Conv2D(5, 3, 1, padding='SAME', precision=p), _IMAGES),
    'pixels': (
        lambda p: layers.PixelConv2D(5, 3, 1, padding='SAME', precision=p),
        _IMAGES)}


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
  theirs.set_weights([layer.kernel.numpy(), layer.bias.numpy()])

  def outputs_and_gradients(any_layer):
    with tf.GradientTape() as tape:
      outputs = any_layer(inputs)
      loss = tf.reduce_sum(outputs**2)
    return outputs, tape.gradient(loss, any_layer.trainable_variables)

  for x, y in zip(tf.nest.flatten(outputs_and_gradients(layer)),
                  tf.nest.flatten(outputs_and_gradients(theirs))):
    assert np.abs(x).max() > 0
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize('precision, variables, outputs', [
    ('float32', tf.float32, tf.float32),
    ('mixed_bfloat16', tf.float32, tf.bfloat16),
    ('bfloat16', tf.bfloat16, tf.bfloat16)])
@pytest.mark.parametrize('kind', _MAKE)
def test_precision_is_that_of_variables_and_outputs(
    kind, precision, variables, outputs):
  make, shape = _MAKE[kind]
  layer = make(precision)
  assert layer(tf.ones(shape)).dtype == outputs
  assert [v.dtype for v in layer.variables] == [variables] * 2


def test_kernel_comes_before_bias_and_each_is_saved_once(tmp_path):
  # Optimiser's slots and what is sent to actors are numbered in this order.
  module = tf.Module()
  module.layer = layers.Linear(2)
  module.layer(tf.ones([1, 3]))
  kernel, bias = module.trainable_variables
  assert kernel.shape == [3, 2] and bias.shape == [2]
  path = tf.train.Checkpoint(agent=module).write(str(tmp_path / 'saved'))
  names = [name for name, _ in tf.train.list_variables(path)]
  assert names == ['_CHECKPOINTABLE_OBJECT_GRAPH', *(
      f'agent/layer/{name}/.ATTRIBUTES/VARIABLE_VALUE'
      for name in ('bias', 'kernel'))]


def test_moments_are_published_and_not_trained():
  vectors = np.random.default_rng(0).normal(
      [7., -100.], [0.5, 20.], [6, 5, 2]).astype(np.float32)
  normaliser = layers.ObservationNormaliser((2,))
  normaliser.update(normaliser.totals(tf.constant(vectors)))
  assert not normaliser.trainable_variables
  other = layers.ObservationNormaliser((2,))
  for variable, value in zip(other.published_variables,
                             normaliser.published_variables):
    variable.assign(value)
  np.testing.assert_array_equal(other(vectors), normaliser(vectors))


def test_moments_are_no_parameters():
  linear = layers.Linear(3)
  linear(tf.zeros([1, 2]))  # Creates the variables.
  head = layers.PopArtHead(linear)
  trained = {v.ref() for v in linear.trainable_variables}
  assert {v.ref() for v in head.trainable_variables} <= trained
