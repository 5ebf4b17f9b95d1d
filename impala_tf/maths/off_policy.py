"""What to make of unrolls that an older policy played: section 5.2.2's ways.

Source: Espeholt et al. 2018 (arXiv:1802.01561v3), section 5.2.2. V-trace is the
paper's; the others are what it is compared with in table 2 and appendix E.
"""

from typing import NamedTuple, Optional

import tensorflow as tf

from impala_tf.maths import vtrace


class Correction(NamedTuple):
  """One way.

  Attributes:
    of_values: the values' targets weigh transitions by pi/mu.
    of_policy_gradient: so does the policy gradient, each by its own.
    log_epsilon: added to pi(a_t|x_t) within the policy gradient's logarithm.
  """
  of_values: bool
  of_policy_gradient: bool
  log_epsilon: float = 0.0


CORRECTIONS = {
    'vtrace': Correction(of_values=True, of_policy_gradient=True),
    # "V-trace without traces": n-step targets as if pi had acted.
    'one_step_is': Correction(of_values=False, of_policy_gradient=True),
    # "during gradient calculation to prevent log pi(a) from becoming very
    # small", after Babaeizadeh et al. 2016.
    'epsilon': Correction(of_values=False, of_policy_gradient=False,
                          log_epsilon=1e-6),
    'none': Correction(of_values=False, of_policy_gradient=False),
}


def returns(correction: Correction, log_rhos: tf.Tensor,
            clip_rho_threshold: Optional[float],
            clip_pg_rho_threshold: Optional[float],
            clip_c_threshold: Optional[float], **kwargs
            ) -> vtrace.VTraceReturns:
  """Targets for values and advantages, corrected as named.

  Where values are not corrected, all ratios in their targets are 1: what
  remains is the n-step return (the lambda-return for `lambda_` below 1).

  Args:
    correction: of `CORRECTIONS`.
    log_rhos: float32 [T, B], log pi(a_t|x_t) - log mu(a_t|x_t).
    clip_rho_threshold: for the values, where they are corrected.
    clip_pg_rho_threshold: for the policy gradient, where it is corrected.
    clip_c_threshold: for the values, where they are corrected.
    **kwargs: further arguments of `vtrace.from_importance_weights`.

  Returns:
    `vtrace.VTraceReturns`.

  Raises:
    ValueError: as `vtrace.from_importance_weights`.
  """
  if correction.of_values:
    return vtrace.from_importance_weights(
        log_rhos, clip_rho_threshold=clip_rho_threshold,
        clip_pg_rho_threshold=clip_pg_rho_threshold,
        clip_c_threshold=clip_c_threshold, **kwargs)
  on_policy = vtrace.from_importance_weights(
      tf.zeros_like(log_rhos), clip_rho_threshold=None,
      clip_pg_rho_threshold=None, clip_c_threshold=None, **kwargs)
  if not correction.of_policy_gradient:
    return on_policy
  pg_rhos = vtrace.clip(
      tf.exp(log_rhos), clip_pg_rho_threshold, 'clip_pg_rho_threshold')
  return on_policy._replace(
      pg_advantages=tf.stop_gradient(pg_rhos) * on_policy.pg_advantages)
