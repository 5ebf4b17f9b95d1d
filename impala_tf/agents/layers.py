"""Layers of torsos and heads, with the paper's initial weights.

Torsos may compute in bfloat16. `networks` has the table of initial weights.
"""

import functools
import math

import tensorflow as tf


def fan_in_truncated_normal(shape, dtype=tf.float32, gain: float = 1.0,
                            **unused_kwargs):
  """Draws initial weights with variance gain^2/fan-in before truncation.

  Keras's `VarianceScaling` corrects for the truncation and so differs from the
  original by 14 %.

  Args:
    shape: [..., inputs, outputs], shape of a kernel.
    dtype: type of the weights.
    gain: factor of their standard deviation.

  Returns:
    Tensor of that shape.
  """
  stddev = gain * math.prod(shape[:-1])**-0.5
  return tf.random.truncated_normal(shape, stddev=stddev, dtype=dtype)


def linear(size: int, **kwargs) -> tf.keras.layers.Dense:
  """Makes a dense layer with the project's initial weights."""
  return tf.keras.layers.Dense(
      size, kernel_initializer=fan_in_truncated_normal, **kwargs)


def _scaled(gain: float):
  """Makes the initializer of a torso's kernels."""
  return functools.partial(fan_in_truncated_normal, gain=gain)


def _add_bias(outputs: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
  """Adds a bias [C] to outputs [..., C] of a layer.

  On CPUs `BiasAddGrad` sums bfloat16 up in bfloat16, where a sum stops growing
  at 256 times what is added. `Sum`, the gradient of an addition, rounds only
  its result.
  """
  if outputs.dtype == tf.bfloat16:
    return outputs + bias
  return tf.nn.bias_add(outputs, bias)


class Dense(tf.keras.layers.Dense):
  """A dense layer of a torso, with the project's initial weights."""

  def __init__(self, size: int, gain: float, **kwargs):
    super().__init__(size, activation='relu', kernel_initializer=_scaled(gain),
                     **kwargs)

  def call(self, inputs):
    outputs = tf.matmul(inputs, self.kernel)
    return self.activation(_add_bias(outputs, self.bias))


class Conv2D(tf.keras.layers.Conv2D):
  """A convolution with the project's initial weights."""

  def __init__(self, channels: int, size: int, stride: int, gain: float,
               **kwargs):
    super().__init__(channels, size, stride, kernel_initializer=_scaled(gain),
                     **kwargs)

  def call(self, inputs):
    outputs = self.convolution_op(inputs, self.kernel)
    return self.activation(_add_bias(outputs, self.bias))


class PixelConv2D(Conv2D):
  """A first convolution of an image torso, which takes bytes.

  Its kernel is divided by 255, not the pixels: a kernel has 16 x 8 x 8 numbers
  a channel, a batch has far more pixels.
  """

  def call(self, inputs):
    return super().call(tf.cast(inputs, self.compute_dtype))

  def convolution_op(self, inputs, kernel):
    return super().convolution_op(inputs, kernel / 255.)
