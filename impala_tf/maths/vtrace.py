"""V-trace and other corrections: off-policy targets and advantages.

Source: Espeholt et al. 2018, "IMPALA: Scalable Distributed Deep-RL with
Importance Weighted Actor-Learner Architectures" (arXiv:1802.01561v3), section
4. The paper's letters are

  mu, the behaviour policy, which acted; pi, the target policy, which learns.
  r_t, the reward of a_t: `rewards[t]`.
  gamma, the discount: `discounts[t]`, gamma or 0.
  V(x_t), the value estimate: `values[t]`.
  rho_t = min(rho-bar, pi/mu): `rhos`.
  c_t = lambda min(c-bar, pi/mu): `cs`.
  v_s, the V-trace target of equation 1: `vs[s]`.

The paper writes gamma^(t-s) for a constant gamma. Here it is the product of the
discounts from s to t-1, which ends a sum at the end of an episode.

Shapes: T time, B batch. Everything is time-major.
"""

from typing import NamedTuple

import tensorflow as tf


class VTraceReturns(NamedTuple):
  """Targets and advantages, float32 [T, B], without gradients."""
  vs: tf.Tensor  # Targets for the values of x_0 .. x_{T-1}.
  pg_advantages: tf.Tensor  # Weights of grad log pi(a_t|x_t).


def from_importance_weights(
    log_rhos: tf.Tensor, discounts: tf.Tensor, rewards: tf.Tensor,
    values: tf.Tensor, bootstrap_value: tf.Tensor,
    clip_rho_threshold: float | None = 1.0,
    clip_pg_rho_threshold: float | None = 1.0,
    clip_c_threshold: float | None = 1.0, lambda_: float = 1.0,
    mask: tf.Tensor | None = None, pg_bootstrap: str = 'vs') -> VTraceReturns:
  """Computes V-trace for given importance ratios (section 4.1, equation 1).

  Equation 1 is evaluated backwards by remark 1,

    v_t = V(x_t) + delta_t V + gamma c_t (v_{t+1} - V(x_{t+1}))
    delta_t V = rho_t (r_t + gamma V(x_{t+1}) - V(x_t))

  from v_T = V(x_T), the bootstrap value. The advantage is that of the canonical
  V-trace actor-critic algorithm of section 4.2,

    rho_t (r_t + gamma v_{t+1} - V(x_t)),

  with v_{t+1}, not V(x_{t+1}), in the brackets (appendix E.3 compares both).

  A masked transition is the reset after a time limit. It leads from the last
  observation of an episode that was cut off to the first of the next. Discount
  0 would take the rest of the episode to be worth 0, and discount gamma would
  leak the next episode's value. So every sum leaves the transition out: delta_t
  V = 0 and c_t = 0. Hence its advantage is 0, and the steps before it bootstrap
  from v_t = V(x_t). The paper has no such case.

  T and B may be unknown while a function is traced.

  Args:
    log_rhos: float32 [T, B], log pi(a_t|x_t) - log mu(a_t|x_t).
    discounts: float32 [T, B], gamma, or 0 if a_t ended the episode.
    rewards: float32 [T, B], r_t, the reward that followed a_t.
    values: float32 [T, B], V(x_t) for t = 0 .. T-1.
    bootstrap_value: float32 [B], V(x_T).
    clip_rho_threshold: rho-bar in delta V. It decides which policy's value is
      the fixed point (equation 3). None, unlike 0: no clipping.
    clip_pg_rho_threshold: rho-bar of the advantage. None: no clipping.
    clip_c_threshold: c-bar, which bounds how far an error is traced back and so
      the variance. None: no clipping. The paper assumes that it does not exceed
      rho-bar; this is not enforced.
    lambda_: multiplies every c_t (remark 2). 1 is equation 1; 0 gives one-step
      targets.
    mask: float32 or bool [T, B], 1 if the transition from x_t to x_{t+1}
      counts, else 0. None: all count.
    pg_bootstrap: factor behind gamma in the advantage: 'vs' for v_{t+1}, or
      'value' for V(x_{t+1}), which appendix E.3 finds to be worse.

  Raises ValueError if an argument's rank or static shape is wrong. A mismatch
  of sizes that are unknown while tracing is a
  `tf.errors.InvalidArgumentError` when the function runs.
  """
  log_rhos, discounts, rewards, values, bootstrap_value = (
      tf.convert_to_tensor(x, tf.float32)
      for x in (log_rhos, discounts, rewards, values, bootstrap_value))
  mask = (tf.ones_like(log_rhos, tf.bool) if mask is None
          else tf.cast(mask, tf.bool))
  tf.debugging.assert_shapes([
      *((x, ('T', 'B')) for x in (log_rhos, discounts, rewards, values, mask)),
      (bootstrap_value, ('B',))])

  ratios = tf.exp(log_rhos)
  rhos = _clip(ratios, clip_rho_threshold)
  pg_rhos = _clip(ratios, clip_pg_rho_threshold)
  cs = lambda_ * _clip(ratios, clip_c_threshold)

  next_values = tf.concat([values[1:], bootstrap_value[tf.newaxis]], axis=0)
  deltas = rhos * (rewards + discounts * next_values - values)
  # `where`, not a product: NaN times 0 would leak out of a cut transition.
  deltas = tf.where(mask, deltas, 0.0)
  cs = tf.where(mask, cs, 0.0)

  # A scan also runs where T is unknown, and keeps graph and XLA's compilation
  # small. It takes a thousandth of a learner's step.
  vs_minus_values = tf.scan(
      lambda later, step: step[0] + step[1] * later, (deltas, discounts * cs),
      initializer=tf.zeros_like(deltas[0]), parallel_iterations=1, reverse=True)
  vs = values + vs_minus_values

  next_vs = tf.concat([vs[1:], bootstrap_value[tf.newaxis]], axis=0)
  estimate = {'vs': next_vs, 'value': next_values}[pg_bootstrap]
  pg_advantages = pg_rhos * (rewards + discounts * estimate - values)
  pg_advantages = tf.where(mask, pg_advantages, 0.0)
  return VTraceReturns(vs=tf.stop_gradient(vs),
                       pg_advantages=tf.stop_gradient(pg_advantages))


def _clip(ratios: tf.Tensor, threshold: float | None) -> tf.Tensor:
  return ratios if threshold is None else tf.minimum(
      tf.cast(threshold, tf.float32), ratios)


# Added to pi(a_t|x_t) within its logarithm by the correction 'epsilon' "during
# gradient calculation to prevent log pi(a) from becoming very small", after
# Babaeizadeh et al. 2016.
LOG_EPSILON = 1e-6


def corrected_returns(correction: str, log_rhos: tf.Tensor,
                      clip_rho_threshold: float | None,
                      clip_pg_rho_threshold: float | None,
                      clip_c_threshold: float | None, **kwargs
                      ) -> VTraceReturns:
  """Computes targets for values and advantages with a given correction.

  V-trace is the paper's own; section 5.2.2, table 2 and appendix E compare it
  with 'one_step_is', "V-trace without traces", and with 'epsilon' and 'none'.
  With these, all ratios in the targets are 1: targets are n-step returns as if
  pi had acted, or lambda-returns for `lambda_` below 1. 'one_step_is' weighs
  each transition's advantage by its ratio.

  Other arguments are those of `from_importance_weights`.
  """
  if correction == 'vtrace':
    return from_importance_weights(
        log_rhos, clip_rho_threshold=clip_rho_threshold,
        clip_pg_rho_threshold=clip_pg_rho_threshold,
        clip_c_threshold=clip_c_threshold, **kwargs)
  on_policy = from_importance_weights(
      tf.zeros_like(log_rhos), clip_rho_threshold=None,
      clip_pg_rho_threshold=None, clip_c_threshold=None, **kwargs)
  pg_rhos = {'one_step_is': _clip(tf.exp(log_rhos), clip_pg_rho_threshold),
             'epsilon': 1., 'none': 1.}[correction]
  return on_policy._replace(
      pg_advantages=tf.stop_gradient(pg_rhos) * on_policy.pg_advantages)
