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
  """
  mean: tf.Tensor  # Floating [F].
  variance: tf.Tensor  # Likewise.


class Totals(NamedTuple):
  """Number of samples and sums of their deviations; replicas' totals add up."""
  # Number of samples, floating [F], or [] if it is the same for all.
  count: tf.Tensor
  deviation: tf.Tensor  # Sum of (sample - mean), floating [F].
  squared_deviation: tf.Tensor  # Sum of (sample - mean)^2, likewise.


def totals(observations: tf.Tensor, mean: tf.Tensor) -> Totals:
  """Sums a batch's deviations from the running mean, and their squares.

  `mean`, float64 [F], is the running mean before; raises ValueError if it is of
  another shape. Returns sums of deviations from it, float64 [F] ([] for the
  count), without gradients.
  """
  if not observations.shape[2:].is_compatible_with(mean.shape):
    raise ValueError(f'observations must be [T, B] and then {mean.shape}, but '
                     f'are {observations.shape}')
  deviation = tf.stop_gradient(tf.cast(observations, tf.float64)) - mean
  return Totals(tf.cast(tf.reduce_prod(tf.shape(observations)[:2]), tf.float64),
                tf.reduce_sum(deviation, axis=[0, 1]),
                tf.reduce_sum(tf.square(deviation), axis=[0, 1]))


def update(count: tf.Tensor, moments: Moments, sums: Totals) -> Moments:
  """Adds observations to the running moments.

  `count` is the number of those so far, float64 []; without any, the moments
  may have any finite values. `sums` are over the new ones of all replicas.
  """
  return move(moments, sums, tf.math.divide_no_nan(
      sums.count, count + sums.count))


def move(moments: Moments, sums: Totals, weight: tf.Tensor) -> Moments:
  """Computes a weighted mixture of the moments and those of new samples.

  `weight` is the share of the samples in the new moments, 0 to 1. `sums` are
  deviations from the mean of `moments`, over all replicas.
  """
  shift = weight * tf.math.divide_no_nan(sums.deviation, sums.count)
  spread = tf.math.divide_no_nan(sums.squared_deviation, sums.count)
  # The second moment minus the mean's square, so written that the mean cancels.
  variance = ((1. - weight) * moments.variance + weight * spread -
              tf.square(shift))
  # Rounding could make it negative.
  return Moments(moments.mean + shift, tf.maximum(variance, 0.))


def normalise(observations: tf.Tensor, moments: Moments) -> tf.Tensor:
  """Computes deviations from the mean in units of the standard deviation.

  Observations [..., F] are of any numeric type. Returns float32, clipped to
  +-`MAX_DEVIATIONS`. No gradient flows into the moments.
  """
  mean, variance = (tf.stop_gradient(tf.cast(m, tf.float32)) for m in moments)
  deviations = (tf.cast(observations, tf.float32) - mean) * tf.math.rsqrt(
      variance + _EPSILON)
  return tf.clip_by_value(deviations, -MAX_DEVIATIONS, MAX_DEVIATIONS)
