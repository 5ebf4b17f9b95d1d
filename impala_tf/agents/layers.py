"""Layers of torsos and heads, and running moments of inputs and of heads.

A layer makes its variables when it is first called, with the initial weights
that `networks` lists. Its `precision` is one of:

  precision         variables  computes in
  ================  =========  ===========
  'float32'         float32    float32
  'mixed_bfloat16'  float32    bfloat16
  'bfloat16'        bfloat16   bfloat16
"""

import math
from typing import Callable, Iterable, Sequence

import tensorflow as tf

from impala_tf.maths import popart
from impala_tf.maths import running_moments

Activation = Callable[[tf.Tensor], tf.Tensor]
# Draws weights of a shape and a dtype.
Initializer = Callable[[Sequence[int], tf.DType], tf.Tensor]


def fan_in_truncated_normal(shape: Sequence[int], dtype: tf.DType = tf.float32,
                            gain: float = 1.0) -> tf.Tensor:
  """Draws a kernel [..., inputs, outputs] of variance gain^2/fan-in.

  The variance is that before truncation. Keras's `VarianceScaling` corrects for
  it, and so differs from the original by 14 %.
  """
  stddev = gain * math.prod(shape[:-1])**-0.5
  return tf.random.truncated_normal(shape, stddev=stddev, dtype=dtype)


def flatten(inputs: tf.Tensor) -> tf.Tensor:
  """Flattens all dimensions but the first, which alone may be unknown."""
  return tf.reshape(inputs, [-1, math.prod(inputs.shape[1:])])


class _Layer(tf.Module):
  """A layer with a `kernel` [..., inputs, outputs] and a `bias` [outputs]."""

  def __init__(self, activation: Activation | None,
               initial_weights: Initializer, precision: str,
               use_bias: bool = True):
    super().__init__()
    self._activation = activation
    self._initial_weights = initial_weights
    self._use_bias = use_bias
    self._dtype = tf.float32 if precision == 'float32' else tf.bfloat16
    self._variable_dtype = (
        tf.bfloat16 if precision == 'bfloat16' else tf.float32)
    self.kernel = None
    self.bias = None

  def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
    if self.kernel is None:
      self._make_variables(inputs.shape[-1])
    outputs = self._product(
        tf.cast(inputs, self._dtype), tf.cast(self.kernel, self._dtype))
    if self._use_bias:
      bias = tf.cast(self.bias, self._dtype)
      # On CPUs `BiasAddGrad` sums bfloat16 in bfloat16, where a sum stops
      # growing at 256 times the addend. `Sum` rounds only its result.
      outputs = (outputs + bias if outputs.dtype == tf.bfloat16
                 else tf.nn.bias_add(outputs, bias))
    return outputs if self._activation is None else self._activation(outputs)

  def _make_variables(self, num_inputs: int) -> None:
    kernel_shape, dtype = self._kernel_shape(num_inputs), self._variable_dtype
    self.kernel = tf.Variable(
        self._initial_weights(kernel_shape, dtype), name='kernel')
    if self._use_bias:
      self.bias = tf.Variable(tf.zeros(kernel_shape[-1:], dtype), name='bias')
    # `tf.Module` lists variables by the names of attributes. This one puts the
    # kernel first, as checkpoints number the optimiser's slots. Set without
    # `__setattr__`, it is not saved.
    self.__dict__['_in_order'] = (self.kernel, self.bias)

  def _kernel_shape(self, num_inputs: int) -> Sequence[int]:
    raise NotImplementedError

  def _product(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    raise NotImplementedError


class Linear(_Layer):
  """A dense layer of `size` outputs, over the last dimension of its inputs."""

  def __init__(self, size: int, activation: Activation | None = None,
               initial_weights: Initializer = fan_in_truncated_normal,
               precision: str = 'float32', use_bias: bool = True):
    super().__init__(activation, initial_weights, precision, use_bias)
    self.size = size

  def _kernel_shape(self, num_inputs: int) -> Sequence[int]:
    return [num_inputs, self.size]

  def _product(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    if inputs.shape.rank == 2:
      return tf.matmul(inputs, kernel)
    # `tf.matmul` would run one product for each leading index.
    return tf.tensordot(inputs, kernel, 1)


class Conv2D(_Layer):
  """A convolution of images [N, H, W, C]."""

  def __init__(self, channels: int, size: int, stride: int,
               activation: Activation | None = None,
               initial_weights: Initializer = fan_in_truncated_normal,
               precision: str = 'float32', padding: str = 'VALID'):
    super().__init__(activation, initial_weights, precision)
    self._channels = channels
    self._size = size
    self._stride = stride
    self._padding = padding

  def _kernel_shape(self, num_inputs: int) -> Sequence[int]:
    return [self._size, self._size, num_inputs, self._channels]

  def _product(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    return tf.nn.conv2d(inputs, kernel, self._stride, self._padding)


class PixelConv2D(Conv2D):
  """The first convolution of an image torso, which reads bytes.

  Its kernel is divided by 255, since a batch has far more pixels.
  """

  def _product(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    return super()._product(inputs, kernel / 255.)


class Embedding(tf.Module):
  """A table of vectors, which start as draws of the standard normal."""

  def __init__(self, num_rows: int, size: int):
    super().__init__()
    self._shape = num_rows, size
    self.embeddings = None

  def __call__(self, rows: tf.Tensor) -> tf.Tensor:
    """Looks up rows, int32 of any shape; returns float32 [..., size]."""
    if self.embeddings is None:
      self.embeddings = tf.Variable(
          tf.random.normal(self._shape), name='embeddings')
    return tf.nn.embedding_lookup(self.embeddings, rows)


class _MomentVariables(tf.Module):
  """Mean and variance as untrained variables, 0 and 1 at first."""

  def __init__(self, name: str, shape: Sequence[int], dtype: tf.DType):
    super().__init__(name=name)
    self._mean = tf.Variable(tf.zeros(shape, dtype), trainable=False)
    self._variance = tf.Variable(tf.ones(shape, dtype), trainable=False)

  @property
  def moments(self) -> running_moments.Moments:
    return running_moments.Moments(tf.convert_to_tensor(self._mean),
                                   tf.convert_to_tensor(self._variance))


def _assign(variables: Iterable[tf.Variable],
            values: Iterable[tf.Tensor]) -> None:
  """Assigns values inside a replica; each replica must assign the same."""
  for variable, value in zip(variables, values):
    # `assign` is not for replicas.
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)


class ObservationNormaliser(_MomentVariables):
  """A normaliser of an agent's vectors by running mean and variance, float64.

  The learner moves them with every update, by the observations of its batch.
  Actors need them as they need parameters.
  """

  def __init__(self, shape: Sequence[int]):
    super().__init__('observation_normaliser', shape, tf.float64)
    self._count = tf.Variable(0., trainable=False, dtype=tf.float64)

  @property
  def published_variables(self) -> tuple[tf.Variable, ...]:
    return self._mean, self._variance

  def __call__(self, observations: tf.Tensor) -> tf.Tensor:
    return running_moments.normalise(observations, self.moments)

  def totals(self, observations: tf.Tensor) -> running_moments.Totals:
    """Sums up one replica's observations [T, B, F] for `update`."""
    return running_moments.totals(observations, self._mean)

  def update(self, totals: running_moments.Totals) -> None:
    """Updates the moments, in every replica, by sums over all replicas."""
    count = tf.convert_to_tensor(self._count)
    new = running_moments.update(count, self.moments, totals)
    _assign((self._count, self._mean, self._variance),
            (count + totals.count, *new))


class PopArtHead(_MomentVariables):
  """A linear head with an output, and moments of targets, for each task.

  Actors do not need the moments.
  """

  def __init__(self, linear: Linear):
    super().__init__('popart', [linear.size], tf.float32)
    self.num_tasks = linear.size
    self._linear = linear

  def update(self, totals: running_moments.Totals, step_size: float) -> None:
    """Updates the moments, and rescales the head so that no value changes.

    The optimiser's slots stay as they are. `totals` are sums over all
    replicas, each of which calls this; for `step_size` see `popart.update`.
    """
    old = self.moments
    new = popart.update(old, totals, step_size)
    rescaled = popart.rescale(self._linear.kernel, self._linear.bias, old, new)
    _assign((self._mean, self._variance, self._linear.kernel,
             self._linear.bias), (*new, *rescaled))
