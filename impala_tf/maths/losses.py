"""The three terms of the actor-critic loss, and the clipping of rewards.

Source: Espeholt et al. 2018 (arXiv:1802.01561v3), section 4.2 and appendix D.

Every loss is SUMMED over time, to float32 [B], and is to be summed over the
batch (table D.1). So published learning rates and gradient norms hold for the
published batch sizes only.

Transitions that a time limit cut off are masked out of all three losses. The
entropy of such a policy is valid, but is masked too, so that all terms are sums
over the same transitions.

Shapes: T time, B batch; others raise ValueError. `mask` is [T, B], float32 or
bool, 1 if the transition counts, else 0; `vtrace` takes the same one.
"""

import math

import tensorflow as tf

_CLIPPINGS = {
    'none': tf.identity,
    'abs_one': lambda r: tf.clip_by_value(r, -1.0, 1.0),
    'tanh_asymmetric': lambda r: (
        0.3 * tf.minimum(tf.tanh(r), 0.0) + 5.0 * tf.maximum(tf.tanh(r), 0.0)),
    'soft_asymmetric': lambda r: (
        5.0 * tf.where(r < 0.0, 0.3, 1.0) * tf.tanh(r / 5.0)),
}


def policy_gradient_loss(log_probs: tf.Tensor, advantages: tf.Tensor,
                         mask: tf.Tensor, epsilon: float = 0.0) -> tf.Tensor:
  """Computes the policy gradient's loss, -sum log pi(a_t|x_t) advantage_t.

  Descending it is the gradient ascent of section 4.2.

  All are float32 [T, B]: log pi(a_t|x_t) of the target policy, and `vtrace`'s
  rho_t (r_t + gamma v_{t+1} - V(x_t)), through which no gradient flows.
  `epsilon` is added to pi(a_t|x_t) within the logarithm, which bounds it and
  its gradient where pi is nearly 0 (the epsilon-correction of section 5.2.2).
  """
  tf.debugging.assert_shapes([
      (log_probs, ('T', 'B')), (advantages, ('T', 'B')), (mask, ('T', 'B'))])
  if epsilon:
    log_probs = tf.experimental.numpy.logaddexp(log_probs, math.log(epsilon))
  return -_masked_sum(log_probs * tf.stop_gradient(advantages), mask)


def baseline_loss(vs: tf.Tensor, values: tf.Tensor,
                  mask: tf.Tensor) -> tf.Tensor:
  """Computes the baseline's loss, 0.5 sum (v_t - V(x_t))^2.

  It is section 4.2's l2 loss to the V-trace targets. `vs`, v_t, and `values`,
  V(x_t), are float32 [T, B]; no gradient flows through the targets.
  """
  tf.debugging.assert_shapes([
      (vs, ('T', 'B')), (values, ('T', 'B')), (mask, ('T', 'B'))])
  return 0.5 * _masked_sum(tf.square(tf.stop_gradient(vs) - values), mask)


def entropy_loss(entropies: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
  """Computes the negative sum of the policy's entropies, in nats.

  It is section 4.2's entropy bonus as a loss; `entropies` are those of the
  target policy pi at x_t, float32 [T, B].
  """
  tf.debugging.assert_shapes([(entropies, ('T', 'B')), (mask, ('T', 'B'))])
  return -_masked_sum(entropies, mask)


def masked_mean(x: tf.Tensor, mask: tf.Tensor,
                axis: int | None = 0) -> tf.Tensor:
  """Averages `x` over the transitions that count, for logs.

  With axis 0 it is a mean over time of each unroll, float32 [B]; with None one
  mean of all, float32 []. It is 0 if no transition counts.
  """
  return tf.math.divide_no_nan(
      _masked_sum(x, mask, axis),
      tf.reduce_sum(tf.cast(mask, tf.float32), axis=axis))


def clip_rewards(rewards: tf.Tensor, name: str) -> tf.Tensor:
  """Bounds rewards so that one learning rate fits every level.

  Rewards are float32 of any shape. Names are

    none: no clipping.
    abs_one: to [-1, 1] (tables D.3 and G.1).
    tanh_asymmetric: the paper's optimistic asymmetric clipping for DMLab-30,
      0.3 min(tanh r, 0) + 5 max(tanh r, 0) (figure D.1).
    soft_asymmetric: the published code's, 5 tanh(r / 5), times 0.3 if r < 0.
  """
  return _CLIPPINGS[name](tf.convert_to_tensor(rewards, tf.float32))


def _masked_sum(x, mask, axis=0):
  return tf.reduce_sum(tf.where(tf.cast(mask, tf.bool), x, 0.), axis=axis)
