"""Running mean and variance, and observations that are normalised by them.

The moments of observations are those of all so far, each of the same weight
(Chan et al. 1979, "Updating formulae and a pairwise algorithm for computing
sample variances", equation 2.1). Their sums are in float64: in float32 the
variance of numbers that are far from 0 would be lost.

Shapes: F numbers of an observation, in any shape.
"""

from typing import NamedTuple

import tensorflow as tf

# Beyond so many standard deviations all numbers are alike.
MAX_DEVIATIONS = 10.
# Added to the variance: a number that never changes becomes 0.
_EPSILON = 1e-8


class Moments(NamedTuple):
  """Mean and variance of some numbers.

  Not the second moment instead of the variance: a small variance would be lost
  in the difference of two large squares.

  Attributes:
    mean: floating [F].
    variance: floating [F].
  """
  mean: tf.Tensor
  variance: tf.Tensor


class Totals(NamedTuple):
  """Sums over samples of some numbers. Sums of several replicas add up.

  Attributes:
    count: floating [F], or [] where it is the same for all; number of samples.
    deviation: floating [F], sum of (sample - mean).
    squared_deviation: floating [F], sum of (sample - mean)^2.
  """
  count: tf.Tensor
  deviation: tf.Tensor
  squared_deviation: tf.Tensor


def totals(observations: tf.Tensor, mean: tf.Tensor) -> Totals:
  """Sums up the observations of a batch.

  Args:
    observations: any numeric type, [T, B, F].
    mean: float64 [F], running mean before these observations.

  Returns:
    Sums of deviations from `mean`, float64 [F] ([] for the count), without
    gradients. Those of several replicas add up.

  Raises:
    ValueError: shapes differ.
  """
  if not observations.shape[2:].is_compatible_with(mean.shape):
    raise ValueError(f'observations must be [T, B] and then {mean.shape}, but '
                     f'are {observations.shape}')
  deviation = tf.stop_gradient(tf.cast(observations, tf.float64)) - mean
  return Totals(
      tf.cast(tf.reduce_prod(tf.shape(observations)[:2]), tf.float64),
      tf.reduce_sum(deviation, axis=[0, 1]),
      tf.reduce_sum(tf.square(deviation), axis=[0, 1]))


def update(count: tf.Tensor, moments: Moments, sums: Totals) -> Moments:
  """Adds observations to the running moments.

  Args:
    count: float64 [], number of observations so far.
    moments: their mean and (population) variance, float64 [F]; any finite
      values if there were none.
    sums: sums over the new observations of all replicas; see `totals`.
  """
  return move(moments, sums, tf.math.divide_no_nan(
      sums.count, count + sums.count))


def move(moments: Moments, sums: Totals, weight: tf.Tensor) -> Moments:
  """Mixes the moments with those of some samples.

  Args:
    moments: moments before these samples, whose mean is that of `sums`.
    sums: sums over the samples of all replicas.
    weight: share of the samples in the new moments, 0 to 1.
  """
  shift = weight * tf.math.divide_no_nan(sums.deviation, sums.count)
  spread = tf.math.divide_no_nan(sums.squared_deviation, sums.count)
  # The second moment minus the mean's square, with both written out, where the
  # mean cancels.
  variance = ((1. - weight) * moments.variance + weight * spread -
              tf.square(shift))
  # Rounding could make it negative.
  return Moments(moments.mean + shift, tf.maximum(variance, 0.))


def normalise(observations: tf.Tensor, moments: Moments) -> tf.Tensor:
  """Computes deviations from the mean in units of the standard deviation.

  Args:
    observations: any numeric type, [..., F].
    moments: mean and variance, [F]. No gradient flows into them.

  Returns:
    float32 [..., F], clipped to +-`MAX_DEVIATIONS`.
  """
  mean, variance = (tf.stop_gradient(tf.cast(m, tf.float32)) for m in moments)
  deviations = (tf.cast(observations, tf.float32) - mean) * tf.math.rsqrt(
      variance + _EPSILON)
  return tf.clip_by_value(deviations, -MAX_DEVIATIONS, MAX_DEVIATIONS)
