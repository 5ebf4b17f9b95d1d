"""Corrections for learning from unrolls that an older policy has played.

Source: Espeholt et al. 2018 (arXiv:1802.01561v3), section 5.2.2. V-trace is the
paper's own; table 2 and appendix E compare it with the others.
"""

from typing import NamedTuple, Optional

import tensorflow as tf

from impala_tf.maths import vtrace


class Correction(NamedTuple):
  """One way to correct for the difference between mu and pi."""
  corrects_values: bool  # Whether their targets weigh transitions by pi/mu.
  corrects_policy_gradient: bool  # Whether it weighs each by its pi/mu.
  log_epsilon: float = 0.0  # Added to pi(a_t|x_t) within its logarithm.


CORRECTIONS = {
    'vtrace': Correction(corrects_values=True, corrects_policy_gradient=True),
    # "V-trace without traces": n-step targets as if pi had acted.
    'one_step_is': Correction(corrects_values=False,
                              corrects_policy_gradient=True),
    # "during gradient calculation to prevent log pi(a) from becoming very
    # small", after Babaeizadeh et al. 2016.
    'epsilon': Correction(corrects_values=False, corrects_policy_gradient=False,
                          log_epsilon=1e-6),
    'none': Correction(corrects_values=False, corrects_policy_gradient=False),
}


def returns(correction: Correction, log_rhos: tf.Tensor,
            clip_rho_threshold: Optional[float],
            clip_pg_rho_threshold: Optional[float],
            clip_c_threshold: Optional[float], **kwargs
            ) -> vtrace.VTraceReturns:
  """Computes targets for values and advantages with a given correction.

  Without a correction of values, all ratios in their targets are 1. Then
  targets are n-step returns, or lambda-returns for `lambda_` below 1.

  Other arguments are those of `vtrace.from_importance_weights`.
  """
  if correction.corrects_values:
    return vtrace.from_importance_weights(
        log_rhos, clip_rho_threshold=clip_rho_threshold,
        clip_pg_rho_threshold=clip_pg_rho_threshold,
        clip_c_threshold=clip_c_threshold, **kwargs)
  on_policy = vtrace.from_importance_weights(
      tf.zeros_like(log_rhos), clip_rho_threshold=None,
      clip_pg_rho_threshold=None, clip_c_threshold=None, **kwargs)
  if not correction.corrects_policy_gradient:
    return on_policy
  pg_rhos = vtrace.clip(tf.exp(log_rhos), clip_pg_rho_threshold)
  return on_policy._replace(
      pg_advantages=tf.stop_gradient(pg_rhos) * on_policy.pg_advantages)
