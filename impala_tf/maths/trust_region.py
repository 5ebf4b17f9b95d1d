"""Trust region over behaviour policies: which steps V-trace may learn from.

Source: Schmitt, Hessel and Simonyan 2020, "Off-Policy Actor-Critic with Shared
Experience Replay" (LASER, arXiv:1909.11583), section 4, and its supplement.
The target policy pi learns, the behaviour policy mu acted. V-trace's clipped
ratios lead to the value of a third one, the implied policy pi~_mu. The further
that is from pi at a state, the less can be learned from mu's action there.

Relevance is a function of the state and of the two policies there, never of the
sampled action: rejecting actions would add a bias.

Shapes: T time, B batch, A discrete actions. No gradient flows through any of
these, and other shapes raise ValueError.
"""

import tensorflow as tf


def kl_to_implied(target_logits: tf.Tensor, behaviour_logits: tf.Tensor,
                  clip_rho_threshold: float | None) -> tf.Tensor:
  """Computes the behaviour relevance beta(s) = KL(pi || pi~_mu) (section 4.3).

  By equation 3 of the supplement the implied policy, whose value V-trace's
  targets lead to (the IMPALA paper's pi_rho-bar), is

    pi~_mu(a|x) = min(rho-bar mu(a|x), pi(a|x)) / (its sum over all actions).

  So the divergence is evaluated as

    sum_a pi(a) max(0, log pi(a) - log(rho-bar mu(a)))
    + log sum_a min(rho-bar mu(a), pi(a)),

  in log space: no probability is divided by another, however small. It never
  exceeds KL(pi || mu) if rho-bar is at least 1.

  Logits are float32 [T, B, A]. `clip_rho_threshold` is rho-bar, above 0; with
  None, no clipping, the implied policy is pi. Returns float32 [T, B], in nats.
  It is infinite, or very large, if pi has an action that mu never takes.
  """
  log_pi, log_mu = (
      tf.nn.log_softmax(tf.stop_gradient(
          tf.convert_to_tensor(logits, tf.float32)))
      for logits in (target_logits, behaviour_logits))
  tf.debugging.assert_shapes([
      (log_pi, ('T', 'B', 'A')), (log_mu, ('T', 'B', 'A'))])
  clipped = log_pi if clip_rho_threshold is None else tf.minimum(
      tf.math.log(tf.cast(clip_rho_threshold, log_mu.dtype)) + log_mu, log_pi)
  # An action that pi never takes adds nothing, though its logit may be -inf.
  lost = tf.where(log_pi > clipped, tf.exp(log_pi) * (log_pi - clipped), 0.)
  return tf.reduce_sum(lost, axis=-1) + tf.reduce_logsumexp(clipped, axis=-1)


def is_relevant(divergences: tf.Tensor, threshold: float | None) -> tf.Tensor:
  """Decides lambda(s): which states' transitions are learned from.

  A state counts if its divergence, float32 [T, B], is below b, `threshold`;
  with None all count. NaN counts, so that the loss shows a diverged policy.
  Returns bool [T, B].
  """
  if threshold is None:
    return tf.ones_like(divergences, tf.bool)
  return tf.logical_not(tf.stop_gradient(divergences) >= threshold)
