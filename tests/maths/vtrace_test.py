"""V-trace against equation 1 of the paper, term by term in float64."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.maths import vtrace

T, B = 7, 4
# Three different bounds, and ratios of 1/4 to 4 on both sides of each.
CLIPS = dict(clip_rho_threshold=2.2, clip_pg_rho_threshold=3.1,
             clip_c_threshold=1.3)


def _inputs(seed=0, **replaced):
  rng = np.random.default_rng(seed)
  discounts = np.full([T, B], 0.9)
  discounts[2, 1] = discounts[5, 3] = 0.0
  inputs = dict(
      log_rhos=rng.uniform(-np.log(4), np.log(4), [T, B]),
      discounts=discounts,
      rewards=rng.normal(size=[T, B]),
      values=rng.normal(size=[T, B]),
      bootstrap_value=rng.normal(size=[B]))
  for clip in CLIPS.values():
    above = np.exp(inputs['log_rhos']) > clip
    assert above.any() and not above.all()
  inputs.update(replaced)
  return inputs


def _truncations():
  """Masks first, last and neighbouring transitions, one at a termination."""
  mask = np.ones([T, B])
  for t, b in (0, 1), (3, 0), (4, 0), (6, 2), (3, 3):
    mask[t, b] = 0
  return mask


def _equation_1(log_rhos, discounts, rewards, values, bootstrap_value,
                clip_rho_threshold=1.0, clip_pg_rho_threshold=1.0,
                clip_c_threshold=1.0, lambda_=1.0):
  """Computes the double sum as it is written; returns vs and pg_advantages."""
  def truncated(bound):
    return np.minimum(np.inf if bound is None else bound, np.exp(log_rhos))

  rhos, cs = truncated(clip_rho_threshold), truncated(clip_c_threshold)
  cs = lambda_ * cs
  length = len(rewards)
  all_values = np.concatenate([values, bootstrap_value[None]])
  vs = np.zeros_like(all_values)
  vs[length] = bootstrap_value
  for s in range(length):
    vs[s] = all_values[s]
    for t in range(s, length):
      delta = rhos[t] * (
          rewards[t] + discounts[t] * all_values[t + 1] - all_values[t])
      vs[s] += np.prod(discounts[s:t], 0) * np.prod(cs[s:t], 0) * delta
  return vs[:-1], truncated(clip_pg_rho_threshold) * (
      rewards + discounts * vs[1:] - values)


def _equation_1_between(mask, inputs, **kwargs):
  """Applies equation 1, without a mask, to each piece between truncations."""
  vs, advantages = np.zeros([T, B]), np.zeros([T, B])
  for b in range(B):
    start = 0
    for end in [t for t in range(T) if not mask[t, b]] + [T]:
      piece = {k: x[start:end, b] for k, x in inputs.items()
               if k != 'bootstrap_value'}
      if end == T:
        last = inputs['bootstrap_value'][b]
      else:
        # The observation before the cut is the last one that is known.
        last = vs[end, b] = inputs['values'][end, b]
      vs[start:end, b], advantages[start:end, b] = _equation_1(
          bootstrap_value=np.asarray(last), **piece, **kwargs)
      start = end + 1
  return vs, advantages


def _assert_close(returns, expected):
  np.testing.assert_allclose(returns.vs, expected[0], rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(
      returns.pg_advantages, expected[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('kwargs', [
    {}, CLIPS, dict(CLIPS, lambda_=0.6),
    *({**CLIPS, name: bound} for bound in (None, 0) for name in CLIPS),
    dict(clip_rho_threshold=0.5, clip_pg_rho_threshold=0.8,
         clip_c_threshold=3.0)], ids=str)
def test_targets_and_advantages_are_equation_1(kwargs):
  inputs = _inputs()
  _assert_close(vtrace.from_importance_weights(**inputs, **kwargs),
                _equation_1(**inputs, **kwargs))


@pytest.mark.parametrize('kwargs', [{}, CLIPS, dict(CLIPS, lambda_=0.6)],
                         ids=str)
@pytest.mark.parametrize('dtype', [np.float32, bool])
def test_a_time_limit_ends_a_piece_that_bootstraps_from_its_last_value(
    kwargs, dtype):
  inputs, mask = _inputs(), _truncations()
  returns = vtrace.from_importance_weights(
      **inputs, **kwargs, mask=mask.astype(dtype))
  _assert_close(returns, _equation_1_between(mask, inputs, **kwargs))
  cut = mask == 0
  np.testing.assert_array_equal(
      returns.vs.numpy()[cut], inputs['values'].astype(np.float32)[cut])
  np.testing.assert_array_equal(returns.pg_advantages.numpy()[cut], 0)


def test_a_cut_transition_may_hold_anything():
  inputs, mask = _inputs(), _truncations()
  unclipped = dict.fromkeys(CLIPS)
  expected = _equation_1_between(mask, inputs, **unclipped)
  inputs['rewards'][mask == 0] = np.nan
  inputs['log_rhos'][mask == 0] = np.inf
  _assert_close(
      vtrace.from_importance_weights(**inputs, **unclipped, mask=mask),
      expected)


def test_time_and_batch_may_be_unknown_while_tracing():
  inputs, mask = _inputs(), _truncations()
  names = list(inputs) + ['mask']
  specs = [tf.TensorSpec([None] * inputs[k].ndim) for k in inputs]
  specs.append(tf.TensorSpec([None, None]))

  @tf.function(input_signature=specs)
  def traced(*args):
    return vtrace.from_importance_weights(**dict(zip(names, args)), **CLIPS)

  floats = {k: tf.constant(x, tf.float32) for k, x in inputs.items()}
  _assert_close(traced(*floats.values(), tf.constant(mask, tf.float32)),
                _equation_1_between(mask, inputs, **CLIPS))
  floats['discounts'] = floats['discounts'][:, :1]
  with pytest.raises(tf.errors.InvalidArgumentError):
    traced(*floats.values(), tf.constant(mask, tf.float32))


def test_no_gradient_flows_through_targets_and_advantages():
  inputs = {k: tf.constant(x, tf.float32) for k, x in _inputs().items()}
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(inputs)
    returns = vtrace.from_importance_weights(**inputs)
  for output in returns:
    assert set(tape.gradient(output, inputs).values()) == {None}


@pytest.mark.parametrize('name,shape', [
    ('log_rhos', [B]), ('log_rhos', [1, B]), ('discounts', [T, 1]),
    ('rewards', [T, B, 1]), ('values', [T + 1, B]), ('bootstrap_value', [1, B]),
    ('bootstrap_value', [1]), ('mask', [T]), ('mask', [T, 1])])
def test_wrong_shapes_are_refused_while_tracing(name, shape):
  inputs = {k: tf.constant(x, tf.float32)
            for k, x in _inputs(mask=np.ones([T, B]), **CLIPS).items()}
  traced = tf.function(vtrace.from_importance_weights)
  traced.get_concrete_function(**inputs)
  inputs[name] = tf.ones(shape)
  with pytest.raises(ValueError, match='shape'):
    traced.get_concrete_function(**inputs)
