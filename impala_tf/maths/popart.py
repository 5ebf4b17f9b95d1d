"""PopArt: normalised values for every task, with outputs that stay unchanged.

Sources: Hessel et al. 2018 ("Multi-task Deep Reinforcement Learning with
PopArt", arXiv:1809.04474) for several tasks and the actor-critic; van Hasselt
et al. 2016 ("Learning values across many orders of magnitude",
arXiv:1602.07714), section 2, for one.

A linear layer has an output n_l for each task l, and V_l = sigma_l n_l + mu_l.
mu and sigma follow mean and standard deviation of the targets of V ("Art",
adaptively rescaling targets). Whenever they move, the layer is moved against
them, so that no V changes ("Pop", preserving outputs precisely).

Shapes: T time, B batch, L tasks, F inputs of the layer; others raise
ValueError. A task without targets stays the same, to the last bit. Moments are
float32 [L], of each task's targets. The mean is mu, which starts at 0. The
variance, which starts at 1, is sigma squared without its bounds; the papers
keep the second moment, nu, instead.
"""

import tensorflow as tf

from impala_tf.maths import running_moments

# Of sigma: Hessel et al. 2018, implementation notes.
MIN_SCALE = 1e-4
MAX_SCALE = 1e6


def scale(moments: running_moments.Moments) -> tf.Tensor:
  """Returns sigma, float32 [L], within its bounds."""
  return tf.clip_by_value(tf.sqrt(moments.variance), MIN_SCALE, MAX_SCALE)


def denormalise(outputs: tf.Tensor, moments: running_moments.Moments,
                task: tf.Tensor) -> tf.Tensor:
  """Computes values from normalised outputs, V = sigma n + mu.

  Outputs are float32 [T, B, L], n of every task, and tasks of unrolls int32
  [B]. Returns float32 [T, B], V for the task of each unroll. No gradient flows
  into the moments.
  """
  tf.debugging.assert_shapes([
      (outputs, ('T', 'B', 'L')), (moments.mean, ('L',)),
      (moments.variance, ('L',)), (task, ('B',))])
  moments = tf.nest.map_structure(tf.stop_gradient, moments)
  normalised = tf.reduce_sum(outputs * _one_hot(task, moments), axis=-1)
  return (tf.gather(scale(moments), task) * normalised +
          tf.gather(moments.mean, task))


def totals(targets: tf.Tensor, mask: tf.Tensor, task: tf.Tensor,
           moments: running_moments.Moments) -> running_moments.Totals:
  """Computes each task's totals of a batch of targets, without gradients.

  Targets of V and the mask, 1 for each target that counts, are float32 [T, B];
  tasks of unrolls int32 [B].
  """
  tf.debugging.assert_shapes([(targets, ('T', 'B')), (mask, ('T', 'B')),
                              (task, ('B',)), (moments.mean, ('L',))])
  deviation = mask * (targets - tf.gather(moments.mean, task))

  def by_task(values):
    return tf.stop_gradient(tf.linalg.matvec(
        _one_hot(task, moments), tf.reduce_sum(values, axis=0),
        transpose_a=True))

  return running_moments.Totals(
      by_task(mask), by_task(deviation), by_task(tf.square(deviation)))


def update(moments: running_moments.Moments, sums: running_moments.Totals,
           step_size: float) -> running_moments.Moments:
  """Moves the moments towards the targets.

  For a single target G equation 6 of Hessel et al. 2018:

    mu <- (1 - step_size) mu + step_size G, and likewise nu of G^2,

  with nu = variance + mu^2. n targets of a task in one batch count as n steps.
  The old moments keep the weight (1 - step_size)^n, and the targets share the
  rest equally. So no batch can overshoot.

  `moments` are the arguments of `totals`, `sums` over the targets of all
  replicas; `step_size` is the weight of a single target, above 0 and below 1.
  """
  # 1 - (1 - step_size)^n, which would lose its digits in float32.
  weight = -tf.math.expm1(
      sums.count * tf.math.log1p(tf.constant(-step_size, sums.count.dtype)))
  return running_moments.move(moments, sums, weight)


def rescale(kernel: tf.Tensor, bias: tf.Tensor, old: running_moments.Moments,
            new: running_moments.Moments) -> tuple[tf.Tensor, tf.Tensor]:
  """Rescales a linear layer so that new moments change no value V.

  By proposition 1 of van Hasselt et al. 2016 the new kernel, [F, L], is kernel
  sigma / sigma'. The new bias, [L], is (sigma bias + mu - mu') / sigma'.
  """
  tf.debugging.assert_shapes([(kernel, ('F', 'L')), (bias, ('L',)),
                              (old.mean, ('L',)), (new.mean, ('L',))])
  ratio = scale(old) / scale(new)
  # In two terms: the first is exact if nothing moves.
  return kernel * ratio, bias * ratio + (old.mean - new.mean) / scale(new)


def _one_hot(task: tf.Tensor, moments: running_moments.Moments) -> tf.Tensor:
  return tf.one_hot(task, moments.mean.shape[0], dtype=moments.mean.dtype)
