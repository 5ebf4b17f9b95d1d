"""Policies over discrete and continuous actions against NumPy in float64."""

from dm_env import specs
import numpy as np
import pytest
from scipy import special
import tensorflow as tf

from impala_tf.maths import distributions

T, B, A, D = 4, 3, 5, 2
CATEGORICAL = distributions.Categorical(A)
GAUSSIAN = distributions.Gaussian(D)
NVEC = (4, 1, 3)
CHOICES = distributions.MultiCategorical(NVEC)
both_kinds = pytest.mark.parametrize('policy', [CATEGORICAL, GAUSSIAN], ids=str)
both_discrete = pytest.mark.parametrize(
    'policy', [CATEGORICAL, CHOICES], ids=str)


def _logits(policy, seed=0, leading=(T, B)):
  return 2 * np.random.default_rng(seed).normal(
      size=(*leading, policy.num_logits))


def _actions(policy, leading=(T, B)):
  rng = np.random.default_rng(1)
  if policy is GAUSSIAN:
    return (3 * rng.normal(size=(*leading, D))).astype(np.float32)
  choices = [rng.integers(n, size=leading) for n in policy.num_values]
  return np.stack(choices, axis=-1).astype(np.int32).reshape(
      *leading, *policy.action_shape)


def _of_each(policy, logits):
  """Returns the log-probabilities of each choice's values."""
  ends = np.cumsum(policy.num_values)[:-1]
  return [special.log_softmax(part, axis=-1)
          for part in np.split(logits, ends, axis=-1)]


def _moments(logits):
  """Computes mean and variance [..., D] after section 9 of the A3C paper."""
  return logits[..., :D], np.log1p(np.exp(logits[..., D:])) + 1e-6


def _log_density(logits, actions):
  """Computes the logarithm of each number's density."""
  mean, variance = _moments(logits)
  return -0.5 * ((actions - mean)**2 / variance + np.log(2 * np.pi * variance))


def _expectation(logits, f):
  """Integrates `f`, a polynomial of actions [..., D], exactly by quadrature."""
  nodes, weights = np.polynomial.hermite_e.hermegauss(8)
  mean, variance = _moments(logits)
  return sum(w / np.sqrt(2 * np.pi) * f(mean + x * np.sqrt(variance))
             for x, w in zip(nodes, weights))


@both_discrete
def test_choices_are_independent_and_their_logarithms_add_up(policy):
  logits, other = (_logits(policy, seed) for seed in (0, 3))
  actions = _actions(policy)
  choices = actions.reshape(T, B, -1)
  log_probs = sum(
      np.take_along_axis(part, choices[..., d, None], axis=-1)[..., 0]
      for d, part in enumerate(_of_each(policy, logits)))
  for dtype in np.int32, np.int64:
    np.testing.assert_allclose(
        policy.log_prob(logits, actions.astype(dtype)), log_probs, rtol=1e-5)
  np.testing.assert_allclose(
      policy.entropy(logits),
      -sum(np.sum(np.exp(p) * p, axis=-1) for p in _of_each(policy, logits)),
      rtol=1e-5)
  pairs = zip(_of_each(policy, logits), _of_each(policy, other))
  np.testing.assert_allclose(
      policy.kl_divergence(logits, other),
      sum(np.sum(np.exp(p) * (p - q), axis=-1) for p, q in pairs), rtol=1e-4)
  with pytest.raises(tf.errors.InvalidArgumentError):
    policy.log_prob(logits, np.full_like(actions, A))


def test_gaussian_is_the_density_of_a_vector_of_independent_numbers():
  logits, other = (2 * _logits(GAUSSIAN, seed) for seed in (0, 1))
  actions = _actions(GAUSSIAN)
  np.testing.assert_allclose(
      GAUSSIAN.log_prob(logits, actions),
      np.sum(_log_density(logits, actions.astype(np.float64)), axis=-1),
      rtol=1e-4)
  entropy = -np.sum(
      _expectation(logits, lambda a: _log_density(logits, a)), axis=-1)
  np.testing.assert_allclose(
      GAUSSIAN.entropy(logits), entropy, rtol=1e-4, atol=1e-5)
  assert entropy.min() < 0 < entropy.max()
  divergence = _expectation(
      logits, lambda a: _log_density(logits, a) - _log_density(other, a))
  np.testing.assert_allclose(
      GAUSSIAN.kl_divergence(logits, other),
      np.sum(divergence, axis=-1), rtol=1e-3)


@pytest.mark.parametrize('policy, shape', [
    (CATEGORICAL, [B]), (CATEGORICAL, [1, B]), (CATEGORICAL, [T, B, 1]),
    (GAUSSIAN, [B, D]), (GAUSSIAN, [T, B]), (GAUSSIAN, [T, B, 1]),
    (CHOICES, [T, B])], ids=str)
def test_actions_do_not_broadcast(policy, shape):
  with pytest.raises(ValueError, match='actions'):
    policy.log_prob(
        _logits(policy), np.zeros(shape, policy.action_dtype.as_numpy_dtype))


@both_kinds
def test_logits_of_another_number_are_refused(policy):
  logits = np.zeros([T, B, policy.num_logits + 2])
  actions = _actions(policy)
  for call in (lambda: policy.log_prob(logits, actions),
               lambda: policy.entropy(logits),
               lambda: policy.kl_divergence(logits, logits),
               lambda: policy.sample(logits, [1, 2])):
    with pytest.raises(ValueError, match='logits must have shape'):
      call()
  with pytest.raises(ValueError, match='q_logits'):
    policy.kl_divergence(_logits(policy), _logits(policy, leading=(B,)))


@pytest.mark.parametrize('x', [-1e4, -120., -95., 60.])
def test_a_very_sure_or_unsure_gaussian_keeps_everything_finite(x):
  logits = tf.constant([[0.3, -0.2, x, x]])
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(logits)
    values = [GAUSSIAN.log_prob(logits, tf.constant([[0.301, -0.2]])),
              GAUSSIAN.entropy(logits),
              GAUSSIAN.kl_divergence(logits, tf.zeros_like(logits))]
  for value in values:
    assert np.isfinite(value).all()
    assert np.isfinite(tape.gradient(value, logits)).all()


SPHERICAL = distributions.SphericalGaussian(D)


def test_spherical_gaussian_has_one_variance_for_all_dimensions():
  # Section 9 of the A3C paper, by hand: softplus(0.3) is the variance.
  one = distributions.SphericalGaussian(1)
  logits, action = [[.2, .3]], tf.constant([[.5]])
  np.testing.assert_allclose(one.log_prob(logits, action), [-.892906],
                             atol=2e-6)
  np.testing.assert_allclose(one.entropy(logits), [1.340234], atol=2e-6)
  np.testing.assert_allclose(
      np.exp(2 * one.entropy(logits) - 1) / (2 * np.pi), [.854355], atol=4e-6)
  # Beside a Gaussian of which each dimension has the same variance.
  logits, others = _logits(SPHERICAL), _logits(SPHERICAL, seed=3)
  wide, wide_others = (
      np.concatenate([x, x[..., -1:]], axis=-1) for x in (logits, others))
  actions = _actions(GAUSSIAN)
  for values, expected in (
      (SPHERICAL.log_prob(logits, actions), GAUSSIAN.log_prob(wide, actions)),
      (SPHERICAL.kl_divergence(logits, others),
       GAUSSIAN.kl_divergence(wide, wide_others)),
      (SPHERICAL.mode(logits), GAUSSIAN.mode(wide)),
      (SPHERICAL.sample(logits, [1, 2]), GAUSSIAN.sample(wide, [1, 2]))):
    assert values.shape == expected.shape
    np.testing.assert_allclose(values, expected, rtol=1e-6)


@pytest.mark.parametrize('policy', [CATEGORICAL, GAUSSIAN, CHOICES], ids=str)
def test_samples_are_a_function_of_the_seed(policy):
  logits = tf.zeros([T, B, policy.num_logits])
  samples = policy.sample(logits, [1, 2])
  assert samples.shape == (T, B) + policy.action_shape
  assert samples.dtype == policy.action_dtype
  compiled = tf.function(
      policy.sample,
      input_signature=[tf.TensorSpec([None, None, policy.num_logits]),
                       tf.TensorSpec([2], tf.int32)])
  np.testing.assert_array_equal(compiled(logits, tf.constant([1, 2])), samples)
  for other in [1, 3], [2, 2]:
    assert np.any(policy.sample(logits, other) != samples)


def test_mode_is_the_most_probable_action_or_the_mean():
  logits = _logits(CATEGORICAL)
  mode = CATEGORICAL.mode(logits)
  assert mode.dtype == tf.int32
  np.testing.assert_array_equal(mode, np.argmax(logits, axis=-1))
  logits = _logits(GAUSSIAN)
  np.testing.assert_array_equal(
      GAUSSIAN.mode(logits),
      np.float32(np.split(logits, 2, axis=-1)[0]))


def test_sample_refuses_a_seed_that_has_not_two_parts():
  with pytest.raises(ValueError, match='seed'):
    CATEGORICAL.sample(tf.zeros([B, A]), [7, 7, 7])


def test_actions_as_inputs_are_one_hot_or_themselves():
  np.testing.assert_array_equal(
      CATEGORICAL.encode(tf.constant([[3, 0]])), np.eye(A)[[[3, 0]]])
  actions = tf.constant([[[3., -7.]]])
  np.testing.assert_array_equal(GAUSSIAN.encode(actions), actions)
  np.testing.assert_array_equal(
      CHOICES.encode(tf.constant([[3, 0, 1], [0, 0, 2]])),
      [[0, 0, 0, 1, 1, 0, 1, 0], [1, 0, 0, 0, 1, 0, 0, 1]])


def test_actions_choose_the_distribution():
  assert distributions.of_actions(specs.DiscreteArray(7)) == (
      distributions.Categorical(7))
  for dtype in np.float32, np.float64:
    bounded = specs.BoundedArray((3,), dtype, -1, 1)
    assert distributions.of_actions(bounded) == distributions.Gaussian(3)
  assert distributions.of_actions(specs.BoundedArray(
      (3,), np.int32, 0, [3, 0, 2])) == CHOICES
  assert distributions.of_actions(specs.BoundedArray(
      (3,), np.int32, 0, 4)) == distributions.MultiCategorical((5, 5, 5))
  assert distributions.Categorical(3) != distributions.Gaussian(3)
  for spec in (specs.BoundedArray((3,), np.int32, 1, 4),
               specs.BoundedArray((3, 1), np.int32, 0, 4),
               specs.BoundedArray((), np.float32, 0, 4),
               specs.BoundedArray((2, 2), np.float32, 0, 4)):
    with pytest.raises(ValueError, match='no policy'):
      distributions.of_actions(spec)


@pytest.mark.parametrize('policy, mask_logits', [
    (CATEGORICAL, distributions.mask_logits),
    (CATEGORICAL, lambda logits, mask: tf.where(mask > 0, logits, -np.inf)),
    (CHOICES, distributions.mask_logits)])
def test_masked_policy_is_that_of_the_legal_actions_alone(policy, mask_logits):
  """Against the formulae over legal actions only, with logits far apart."""
  ends = np.cumsum(policy.num_values)[:-1]
  mask = np.random.default_rng(5).random([T, B, policy.num_logits]) < 0.5
  for first in (0, *ends):
    mask[..., first] = True
  logits, other = (100 * _logits(policy, seed) for seed in (0, 3))
  logits, other = np.float32(logits / 40), np.float32(other / 40)
  assert not mask.all()
  entropy, divergence = np.zeros([T, B]), np.zeros([T, B])
  for t, b in np.ndindex(T, B):
    for m, x, y in zip(*(np.split(v[t, b], ends)
                         for v in (mask, logits, other))):
      p, q = (special.log_softmax(np.float64(v[m])) for v in (x, y))
      entropy[t, b] -= np.sum(np.exp(p) * p)
      divergence[t, b] += np.sum(np.exp(p) * (p - q))
  masked, other = (
      mask_logits(tf.constant(x), tf.constant(mask, tf.uint8))
      for x in (logits, other))
  np.testing.assert_allclose(policy.entropy(masked), entropy, atol=1e-4)
  np.testing.assert_allclose(
      policy.kl_divergence(masked, other), divergence, rtol=1e-4, atol=1e-4)
  for seed in range(50):
    chosen = policy.encode(policy.sample(masked, [seed, 1])).numpy()
    assert not chosen[~mask].any()


def test_no_gradient_reaches_the_logit_of_an_illegal_action():
  logits = tf.constant(_logits(CATEGORICAL), tf.float32)
  mask = np.ones([T, B, A], np.uint8)
  mask[..., 2] = 0
  mask[0] = [1, 0, 0, 0, 0]  # Only one is legal.
  with tf.GradientTape() as tape:
    tape.watch(logits)
    masked = distributions.mask_logits(logits, tf.constant(mask))
    value = tf.reduce_sum(
        CATEGORICAL.log_prob(masked, np.zeros([T, B], np.int32))
        + CATEGORICAL.entropy(masked)
        + CATEGORICAL.kl_divergence(masked, masked + logits))
  gradient = tape.gradient(value, logits).numpy()
  assert np.isfinite(gradient).all()
  np.testing.assert_array_equal(gradient[mask == 0], 0)
  np.testing.assert_allclose(gradient[0], 0, atol=1e-6)
  assert np.abs(gradient[1:][mask[1:] == 1]).min() > 0


def test_mask_of_another_shape_is_refused():
  with pytest.raises(ValueError, match='mask must have shape'):
    distributions.mask_logits(tf.zeros([T, B, A]), tf.ones([B, A], tf.uint8))
