"""V-trace: off-policy targets for values and advantages.

Source: Espeholt et al. 2018, "IMPALA: Scalable Distributed Deep-RL with
Importance Weighted Actor-Learner Architectures" (arXiv:1802.01561v3), section
4. The paper's letters are

  mu, the behaviour policy, which acted: `behaviour_policy_logits`.
  pi, the target policy, which learns: `target_policy_logits`.
  r_t, the reward of a_t: `rewards[t]`.
  gamma, the discount: `discounts[t]`, gamma or 0.
  V(x_t), the value estimate: `values[t]`.
  rho_t = min(rho-bar, pi/mu): `rhos`.
  c_t = lambda min(c-bar, pi/mu): `cs`.
  v_s, the V-trace target of equation 1: `vs[s]`.

The paper writes gamma^(t-s) for a constant gamma. Here it is the product of the
discounts from s to t-1, which ends a sum at the end of an episode.

Shapes: T time, B batch, A actions. Everything is time-major.
"""

from typing import NamedTuple, Optional, Union

import tensorflow as tf

from impala_tf.maths import distributions

Threshold = Optional[Union[float, tf.Tensor]]


class VTraceReturns(NamedTuple):
  """Targets and advantages, float32 [T, B, ...], without gradients."""
  vs: tf.Tensor  # Targets for the values of x_0 .. x_{T-1}.
  pg_advantages: tf.Tensor  # Weights of grad log pi(a_t|x_t).


class VTraceFromLogitsReturns(NamedTuple):
  """`VTraceReturns`, and the log-probabilities behind them, float32 [T, B].

  Gradients flow through the last three: log pi - log mu (not clipped), log mu
  and log pi of a_t at x_t.
  """
  vs: tf.Tensor
  pg_advantages: tf.Tensor
  log_rhos: tf.Tensor
  behaviour_action_log_probs: tf.Tensor
  target_action_log_probs: tf.Tensor


def from_logits(
    behaviour_policy_logits: tf.Tensor,
    target_policy_logits: tf.Tensor,
    actions: tf.Tensor,
    discounts: tf.Tensor,
    rewards: tf.Tensor,
    values: tf.Tensor,
    bootstrap_value: tf.Tensor,
    clip_rho_threshold: Threshold = 1.0,
    clip_pg_rho_threshold: Threshold = 1.0,
    name: str = 'vtrace_from_logits',
    *,
    clip_c_threshold: Threshold = 1.0,
    lambda_: Union[float, tf.Tensor] = 1.0,
    mask: Optional[tf.Tensor] = None) -> VTraceFromLogitsReturns:
  """Computes V-trace for policies over discrete actions from their logits.

  It is the entry for other code: arguments, their order and the result's fields
  are those of deepmind/scalable_agent (`vtrace.py`); new arguments come by
  keyword. SEED RL has only `from_importance_weights`, of the two policies'
  log-probabilities: give it their difference here.

  Args:
    behaviour_policy_logits: float32 [T, B, A], of mu at x_0 .. x_{T-1}.
    target_policy_logits: float32 [T, B, A], of pi at the same observations.
    actions: int32 [T, B], a_t, sampled from mu.
    name: scope of the operations' names in graphs and profiles.

  All others are those of `from_importance_weights`, [T, B] and [B] here, and so
  are the errors.
  """
  behaviour_policy_logits = _to_tensor(behaviour_policy_logits)
  target_policy_logits = _to_tensor(target_policy_logits)
  actions = tf.convert_to_tensor(actions)
  tf.debugging.assert_shapes([
      (behaviour_policy_logits, ('T', 'B', 'A')),
      (target_policy_logits, ('T', 'B', 'A')),
      (actions, ('T', 'B'))])

  with tf.name_scope(name):
    policy = distributions.Categorical(target_policy_logits.shape[-1])
    behaviour_action_log_probs = policy.log_prob(
        behaviour_policy_logits, actions)
    target_action_log_probs = policy.log_prob(target_policy_logits, actions)
    log_rhos = target_action_log_probs - behaviour_action_log_probs
    returns = from_importance_weights(
        log_rhos, discounts, rewards, values, bootstrap_value,
        clip_rho_threshold, clip_pg_rho_threshold, clip_c_threshold, lambda_,
        mask)
  return VTraceFromLogitsReturns(
      *returns, log_rhos, behaviour_action_log_probs, target_action_log_probs)


def from_importance_weights(
    log_rhos: tf.Tensor,
    discounts: tf.Tensor,
    rewards: tf.Tensor,
    values: tf.Tensor,
    bootstrap_value: tf.Tensor,
    clip_rho_threshold: Threshold = 1.0,
    clip_pg_rho_threshold: Threshold = 1.0,
    clip_c_threshold: Threshold = 1.0,
    lambda_: Union[float, tf.Tensor] = 1.0,
    mask: Optional[tf.Tensor] = None,
    pg_bootstrap: str = 'vs') -> VTraceReturns:
  """Computes V-trace for given importance ratios (section 4.1, equation 1).

  Equation 1 is evaluated backwards by remark 1,

    v_t = V(x_t) + delta_t V + gamma c_t (v_{t+1} - V(x_{t+1}))
    delta_t V = rho_t (r_t + gamma V(x_{t+1}) - V(x_t))

  from v_T = V(x_T), the bootstrap value. The advantage is that of the canonical
  V-trace actor-critic algorithm of section 4.2,

    rho_t (r_t + gamma v_{t+1} - V(x_t)),

  with v_{t+1}, not V(x_{t+1}), in the brackets (appendix A.3 says why).

  A masked transition is the reset after a time limit. It leads from the last
  observation of an episode that was cut off to the first of the next. Discount
  0 would take the rest of the episode to be worth 0, and discount gamma would
  leak the next episode's value. So every sum leaves the transition out: delta_t
  V = 0 and c_t = 0. Hence its advantage is 0, and the steps before it bootstrap
  from v_t = V(x_t). The paper has no such case.

  All arguments may have further dimensions behind [T, B], as in [T, B, C] for C
  rewards learned at once. Those broadcast; T and B do not. T and B may be
  unknown while a function is traced.

  Args:
    log_rhos: float32 [T, B, ...], log pi(a_t|x_t) - log mu(a_t|x_t).
    discounts: float32 [T, B, ...], gamma, or 0 if a_t ended the episode.
    rewards: float32 [T, B, ...], r_t, the reward that followed a_t.
    values: float32 [T, B, ...], V(x_t) for t = 0 .. T-1.
    bootstrap_value: float32 [B, ...], V(x_T).
    clip_rho_threshold: scalar, rho-bar in delta V. It decides which policy's
      value is the fixed point (equation 3). None, unlike 0: no clipping.
    clip_pg_rho_threshold: scalar, rho-bar of the advantage. None: no clipping.
    clip_c_threshold: scalar, c-bar, which bounds how far an error is traced
      back and so the variance. None: no clipping. The paper assumes that it
      does not exceed rho-bar; this is not enforced.
    lambda_: scalar in [0, 1], multiplies every c_t (remark 2). 1 is equation 1;
      0 gives one-step targets.
    mask: float32 or bool [T, B], 1 if the transition from x_t to x_{t+1}
      counts, else 0. None: all count.
    pg_bootstrap: factor behind gamma in the advantage: 'vs' for v_{t+1}, or
      'value' for V(x_{t+1}), which appendix E.3 finds to be worse.

  Raises ValueError if an argument's rank or static shape is wrong, or
  `pg_bootstrap` is unknown. A mismatch of sizes that are unknown while tracing
  is a `tf.errors.InvalidArgumentError` when the function runs.
  """
  log_rhos, discounts, rewards, values, bootstrap_value = map(
      _to_tensor, (log_rhos, discounts, rewards, values, bootstrap_value))
  mask = True if mask is None else tf.cast(mask, tf.bool)
  _check_shapes(log_rhos, discounts, rewards, values, bootstrap_value, mask)

  ratios = tf.exp(log_rhos)
  rhos = clip(ratios, clip_rho_threshold, 'clip_rho_threshold')
  pg_rhos = clip(ratios, clip_pg_rho_threshold, 'clip_pg_rho_threshold')
  cs = lambda_ * clip(ratios, clip_c_threshold, 'clip_c_threshold')

  next_values = tf.concat([values[1:], bootstrap_value[tf.newaxis]], axis=0)
  deltas = rhos * (rewards + discounts * next_values - values)
  # `where`, not a product: NaN times 0 would leak out of a cut transition.
  counts = mask if mask is True else tf.reshape(mask, tf.concat(
      [tf.shape(mask), [1] * (log_rhos.shape.rank - 2)], axis=0))
  deltas = tf.where(counts, deltas, 0.0)
  cs = tf.where(counts, cs, 0.0)

  # A scan also runs where T is unknown, and keeps graph and XLA's compilation
  # small. It takes a thousandth of a learner's step.
  vs_minus_values = tf.scan(
      lambda later, step: step[0] + step[1] * later,
      (deltas, discounts * cs),
      initializer=tf.zeros_like(deltas[0]),
      parallel_iterations=1,
      reverse=True)
  vs = values + vs_minus_values

  next_vs = tf.concat([vs[1:], bootstrap_value[tf.newaxis]], axis=0)
  if pg_bootstrap not in ('vs', 'value'):
    raise ValueError(f"pg_bootstrap must be 'vs' or 'value', but is "
                     f'{pg_bootstrap!r}')
  estimate = next_vs if pg_bootstrap == 'vs' else next_values
  pg_advantages = pg_rhos * (rewards + discounts * estimate - values)
  pg_advantages = tf.where(counts, pg_advantages, 0.0)
  return VTraceReturns(vs=tf.stop_gradient(vs),
                       pg_advantages=tf.stop_gradient(pg_advantages))


def _to_tensor(x):
  return tf.convert_to_tensor(x, dtype=tf.float32)


def _check_shapes(log_rhos, discounts, rewards, values, bootstrap_value, mask):
  """Raises ValueError unless ranks are equal and T and B agree."""
  if log_rhos.shape.rank is None:
    raise ValueError('the rank of log_rhos must be known while tracing')
  further = (None,) * (log_rhos.shape.rank - 2)  # Any size, even of 1.
  time_major = ('T', 'B') + further
  tf.debugging.assert_shapes([
      (log_rhos, time_major),
      (discounts, time_major),
      (rewards, time_major),
      (values, time_major),
      (bootstrap_value, ('B',) + further),
      *([] if mask is True else [(mask, ('T', 'B'))])])


def clip(ratios: tf.Tensor, threshold: Threshold, name: str) -> tf.Tensor:
  """Bounds ratios pi/mu, float32 of any shape, from above.

  The threshold may be 0; None is no bound. Raises ValueError, which calls it
  `name`, if it is no scalar.
  """
  if threshold is None:
    return ratios
  bound = _to_tensor(threshold)
  if bound.shape.rank != 0:
    raise ValueError(f'{name} must be a scalar, but has shape {bound.shape}')
  return tf.minimum(bound, ratios)
