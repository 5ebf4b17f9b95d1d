"""PopArt: values on a scale of their own for every task, outputs unchanged.

Sources: Hessel et al. 2018 ("Multi-task Deep Reinforcement Learning with
PopArt", arXiv:1809.04474) for several tasks and the actor-critic; van Hasselt
et al. 2016 ("Learning values across many orders of magnitude",
arXiv:1602.07714), section 2, for one.

A linear layer has an output n_l for each task l, and V_l = sigma_l n_l + mu_l.
mu and sigma follow mean and standard deviation of the targets of V ("Art",
adaptively rescaling targets). Whenever they move, the layer is moved against
them, so that no V changes ("Pop", preserving outputs precisely).

Pure maths. Shapes: T time, B batch, L tasks, F inputs of the layer. Where a
task has no target nothing of it changes, to the last bit.
"""

from typing import NamedTuple, Tuple

import tensorflow as tf

# Of sigma: Hessel et al. 2018, implementation notes.
MIN_SCALE = 1e-4
MAX_SCALE = 1e6


class Moments(NamedTuple):
  """What is known of each task's targets.

  The variance and not the second moment of the papers: in float32 the
  difference of two large squares would leave nothing of it.

  Attributes:
    mean: float32 [L], mu; 0 at first.
    variance: float32 [L], sigma squared before it is bounded; 1 at first.
  """
  mean: tf.Tensor
  variance: tf.Tensor


class Totals(NamedTuple):
  """Sums over targets; those of the replicas add up.

  Attributes:
    count: float32 [L], how many.
    deviation: float32 [L], sum of target - mu.
    squared_deviation: float32 [L], sum of (target - mu)^2.
  """
  count: tf.Tensor
  deviation: tf.Tensor
  squared_deviation: tf.Tensor


def scale(moments: Moments) -> tf.Tensor:
  """Returns sigma, float32 [L], within its bounds."""
  return tf.clip_by_value(tf.sqrt(moments.variance), MIN_SCALE, MAX_SCALE)


def denormalise(outputs: tf.Tensor, moments: Moments,
                task: tf.Tensor) -> tf.Tensor:
  """V = sigma n + mu.

  Args:
    outputs: float32 [T, B, L], n of every task.
    moments: no gradient flows into them.
    task: int32 [B].

  Returns:
    float32 [T, B], of each unroll's own task.

  Raises:
    ValueError: a rank or a static shape is wrong.
  """
  tf.debugging.assert_shapes([
      (outputs, ('T', 'B', 'L')), (moments.mean, ('L',)),
      (moments.variance, ('L',)), (task, ('B',))])
  moments = tf.nest.map_structure(tf.stop_gradient, moments)
  own = tf.reduce_sum(outputs * _one_hot(task, moments), axis=-1)
  return (tf.gather(scale(moments), task) * own +
          tf.gather(moments.mean, task))


def totals(targets: tf.Tensor, mask: tf.Tensor, task: tf.Tensor,
           moments: Moments) -> Totals:
  """Sums up the targets of a batch.

  Args:
    targets: float32 [T, B], of V.
    mask: float32 [T, B], 1 where there is one, else 0.
    task: int32 [B].
    moments: as they are.

  Returns:
    `Totals`, without gradients.

  Raises:
    ValueError: a rank or a static shape is wrong.
  """
  tf.debugging.assert_shapes([
      (targets, ('T', 'B')), (mask, ('T', 'B')), (task, ('B',)),
      (moments.mean, ('L',))])
  deviation = mask * (targets - tf.gather(moments.mean, task))

  def by_task(values):
    return tf.stop_gradient(tf.linalg.matvec(
        _one_hot(task, moments), tf.reduce_sum(values, axis=0),
        transpose_a=True))

  return Totals(by_task(mask), by_task(deviation),
                by_task(tf.square(deviation)))


def update(moments: Moments, sums: Totals, step_size: float) -> Moments:
  """Moves the moments towards the targets.

  For a single target G equation 6 of Hessel et al. 2018:

    mu <- (1 - step_size) mu + step_size G, and likewise nu of G^2,

  with nu = variance + mu^2. n targets of a task at once count as n steps, in no
  order: what was known keeps the weight (1 - step_size)^n, and each of them
  gets the same part of the rest. So no batch can overshoot.

  Args:
    moments: as `totals` was given them.
    sums: of all replicas.
    step_size: of one target, above 0 and below 1.

  Returns:
    The new moments.
  """
  # 1 - (1 - step_size)^n, which would lose its digits in float32.
  weight = -tf.math.expm1(
      sums.count * tf.math.log1p(tf.constant(-step_size, sums.count.dtype)))
  shift = weight * tf.math.divide_no_nan(sums.deviation, sums.count)
  spread = tf.math.divide_no_nan(sums.squared_deviation, sums.count)
  # nu - mu^2 with both written out; mu cancels.
  variance = ((1. - weight) * moments.variance + weight * spread -
              tf.square(shift))
  # Rounding could leave less than nothing of it.
  return Moments(moments.mean + shift, tf.maximum(variance, 0.))


def rescale(kernel: tf.Tensor, bias: tf.Tensor, old: Moments,
            new: Moments) -> Tuple[tf.Tensor, tf.Tensor]:
  """Keeps all V as they are (van Hasselt et al. 2016, proposition 1).

  Args:
    kernel: [F, L], of the linear layer.
    bias: [L].
    old: moments that kernel and bias belong to.
    new: moments that they are to belong to.

  Returns:
    Kernel sigma / sigma' and bias (sigma bias + mu - mu') / sigma'.

  Raises:
    ValueError: a rank or a static shape is wrong.
  """
  tf.debugging.assert_shapes([
      (kernel, ('F', 'L')), (bias, ('L',)), (old.mean, ('L',)),
      (new.mean, ('L',))])
  ratio = scale(old) / scale(new)
  # The bias in two terms: one that stays as it is where nothing moves.
  return kernel * ratio, bias * ratio + (old.mean - new.mean) / scale(new)


def _one_hot(task: tf.Tensor, moments: Moments) -> tf.Tensor:
  """[B, L]."""
  return tf.one_hot(task, moments.mean.shape[0], dtype=moments.mean.dtype)
