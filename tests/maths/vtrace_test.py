"""V-trace against equation 1 of the paper, term by term in float64."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.maths import vtrace

T, B, A = 7, 4, 5
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
  advantages = truncated(clip_pg_rho_threshold) * (
      rewards + discounts * vs[1:] - values)
  return vs[:-1], advantages


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
    {},
    CLIPS,
    dict(CLIPS, lambda_=0.6),
    dict(CLIPS, clip_rho_threshold=None),
    dict(CLIPS, clip_pg_rho_threshold=None),
    dict(CLIPS, clip_c_threshold=None),
    dict(CLIPS, clip_rho_threshold=0),
    dict(CLIPS, clip_pg_rho_threshold=0),
    dict(CLIPS, clip_c_threshold=0),
    dict(clip_rho_threshold=0.5, clip_pg_rho_threshold=0.8,
         clip_c_threshold=3.0),
], ids=str)
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


@pytest.mark.parametrize('share_ratios', [False, True])
def test_further_dimensions_are_independent(share_ratios):
  channels = [_inputs(seed) for seed in range(3)]
  mask = _truncations()
  stacked = {k: np.stack([c[k] for c in channels], axis=-1)
             for k in channels[0]}
  if share_ratios:
    stacked['log_rhos'] = stacked['log_rhos'][..., :1]
    for inputs in channels:
      inputs['log_rhos'] = channels[0]['log_rhos']
  returns = vtrace.from_importance_weights(**stacked, **CLIPS, mask=mask)
  assert returns.vs.shape == [T, B, 3]
  for i, inputs in enumerate(channels):
    _assert_close(
        vtrace.VTraceReturns(returns.vs[..., i], returns.pg_advantages[..., i]),
        _equation_1_between(mask, inputs, **CLIPS))


def _log_softmax(logits):
  return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


def _logits_and_actions():
  rng = np.random.default_rng(3)
  return dict(behaviour_policy_logits=rng.normal(size=[T, B, A]),
              target_policy_logits=rng.normal(size=[T, B, A]),
              actions=rng.integers(A, size=[T, B]).astype(np.int32))


def test_logits_give_the_ratio_of_target_to_behaviour_policy():
  policies = _logits_and_actions()
  inputs, mask = _inputs(), _truncations()
  behaviour, target = (
      np.take_along_axis(_log_softmax(policies[name + '_policy_logits']),
                         policies['actions'][..., None], -1)[..., 0]
      for name in ('behaviour', 'target'))
  inputs['log_rhos'] = target - behaviour
  kwargs = dict(CLIPS, lambda_=0.6)
  expected = _equation_1_between(mask, inputs, **kwargs)
  del inputs['log_rhos']
  logits = policies['target_policy_logits'] = tf.constant(
      policies['target_policy_logits'], tf.float32)
  with tf.GradientTape() as tape:
    tape.watch(logits)
    returns = vtrace.from_logits(**policies, **inputs, **kwargs, mask=mask)

  np.testing.assert_allclose(
      returns.behaviour_action_log_probs, behaviour, atol=1e-5)
  np.testing.assert_allclose(
      returns.target_action_log_probs, target, atol=1e-5)
  np.testing.assert_allclose(returns.log_rhos, target - behaviour, atol=1e-5)
  _assert_close(returns, expected)
  # Through the log-probabilities flows a gradient.
  np.testing.assert_allclose(
      tape.gradient(returns.target_action_log_probs, logits),
      np.eye(A)[policies['actions']] - np.exp(_log_softmax(logits.numpy())),
      atol=1e-5)


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
    ('log_rhos', [B]),
    ('log_rhos', [1, B]),
    ('discounts', [T, 1]),
    ('rewards', [T, B, 1]),
    ('values', [T + 1, B]),
    ('bootstrap_value', [1, B]),
    ('bootstrap_value', [1]),
    ('mask', [T]),
    ('mask', [T, 1]),
    ('clip_rho_threshold', [1]),
    ('clip_pg_rho_threshold', [B]),
    ('clip_c_threshold', [T, B]),
])
def test_wrong_shapes_are_refused_while_tracing(name, shape):
  inputs = {k: tf.constant(x, tf.float32)
            for k, x in _inputs(mask=np.ones([T, B]), **CLIPS).items()}
  traced = tf.function(vtrace.from_importance_weights)
  traced.get_concrete_function(**inputs)
  inputs[name] = tf.ones(shape)
  with pytest.raises(ValueError, match='shape'):
    traced.get_concrete_function(**inputs)


def test_an_unknown_rank_is_refused():
  inputs = {k: tf.constant(x, tf.float32) for k, x in _inputs().items()}
  inputs['log_rhos'] = tf.TensorSpec(None)
  with pytest.raises(ValueError, match='rank of log_rhos'):
    tf.function(vtrace.from_importance_weights).get_concrete_function(**inputs)


@pytest.mark.parametrize('name,shape', [
    ('behaviour_policy_logits', [T, B, A + 1]),
    ('target_policy_logits', [T, 1, A]), ('actions', [T, B, 1])])
def test_wrong_policies_are_refused(name, shape):
  inputs = dict(_inputs(), **_logits_and_actions())
  del inputs['log_rhos']
  inputs[name] = np.zeros(shape, inputs[name].dtype)
  with pytest.raises(ValueError, match='shape'):
    vtrace.from_logits(**inputs)


def test_calls_written_for_scalable_agent_work_as_they_are():
  """Order and names of arguments, and the name of operations, are theirs."""
  arguments = {**_logits_and_actions(), **_inputs()}
  del arguments['log_rhos']
  arguments.update(
      clip_rho_threshold=1.1, clip_pg_rho_threshold=0.9, name='elsewhere')
  tf.nest.map_structure(
      np.testing.assert_array_equal, vtrace.from_logits(*arguments.values()),
      vtrace.from_logits(**arguments))
  graph = tf.Graph()
  with graph.as_default():
    vtrace.from_logits(**arguments)
  names = [op.name for op in graph.get_operations() if 'while' in op.name]
  assert names and all(name.startswith('elsewhere/') for name in names)
