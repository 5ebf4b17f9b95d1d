"""The trust region against the propositions of the LASER paper, in float64."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.maths import distributions
from impala_tf.maths import trust_region
from impala_tf.maths import vtrace

# Proposition 2 of the supplement: one step, no baseline.
Q = np.array([2., 5.])
MU, PI = np.array([.9, .1]), np.array([.5, .5])
A = 5


def _softmax(logits):
  exps = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
  return exps / exps.sum(axis=-1, keepdims=True)


def _implied(pi, mu, rho_bar):
  """Computes equation 3 as it is written."""
  clipped = np.minimum(rho_bar * mu, pi)
  return clipped / clipped.sum(axis=-1, keepdims=True)


def _kl(p, q):
  return np.sum(p * np.log(p / q), axis=-1)


def _row(probs):
  """Makes logits [1, 1, A], which need not be normalised."""
  return np.log(probs)[np.newaxis, np.newaxis] + 3.


@pytest.mark.parametrize('rho_bar, expected', [
    (1., 0.2938933324510594), (4., 0.006211259999278525), (5., 0.), (9., 0.),
    (None, 0.)])
def test_divergence_of_proposition_2(rho_bar, expected):
  divergence = trust_region.kl_to_implied(_row(PI), _row(MU), rho_bar)
  assert divergence.shape == (1, 1) and divergence.dtype == tf.float32
  np.testing.assert_allclose(divergence, [[expected]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('rho_bar', [.5, 1., 3.])
def test_divergence_is_from_equation_3_and_never_above_the_behaviours(rho_bar):
  pi_logits, mu_logits = np.random.default_rng(0).normal(size=[2, 7, 4, A]) * 2
  pi, mu = _softmax(pi_logits), _softmax(mu_logits)
  expected = _implied(pi, mu, rho_bar)
  divergence = trust_region.kl_to_implied(pi_logits, mu_logits, rho_bar)
  np.testing.assert_allclose(
      divergence, _kl(pi, expected), rtol=1e-4, atol=1e-6)
  if rho_bar >= 1:
    assert np.all(divergence <= _kl(pi, mu) + 1e-6)


@pytest.mark.parametrize('phi', [.05, .2, .45])
def test_proposition_1_policies_with_swapped_actions_imply_a_coin(phi):
  mu, pi = np.array([phi, 1 - phi]), np.array([1 - phi, phi])
  divergence = trust_region.kl_to_implied(_row(pi), _row(mu), 1.)
  np.testing.assert_allclose(divergence, [[_kl(pi, .5)]], rtol=1e-5)
  # V-trace's fixed point, whose expected step is 0; the truth is 1 - phi.
  targets = vtrace.from_importance_weights(
      np.log(pi / mu)[np.newaxis], discounts=np.zeros([1, 2]),
      rewards=[[1., 0.]], values=np.full([1, 2], .5),
      bootstrap_value=[0., 0.]).vs
  np.testing.assert_allclose(np.sum(mu * targets[0]), .5, rtol=1e-5)


def test_actions_that_are_never_taken_do_not_count():
  pi = [[[0., 1., -np.inf]], [[0., 1., distributions.ILLEGAL_LOGIT]]]
  mu = [[[1., 0., -np.inf]], [[1., 0., distributions.ILLEGAL_LOGIT]]]
  both = _softmax(np.array([0., 1.])), _softmax(np.array([1., 0.]))
  np.testing.assert_allclose(
      trust_region.kl_to_implied(pi, mu, 1.),
      np.full([2, 1], _kl(both[0], _implied(*both, 1.))), rtol=1e-5)


@pytest.mark.parametrize('never', [-np.inf, distributions.ILLEGAL_LOGIT])
def test_a_state_with_an_action_that_mu_lacks_is_not_relevant(never):
  divergence = trust_region.kl_to_implied([[[0., 0.]]], [[[0., never]]], 1.)
  assert not np.any(np.isnan(divergence))
  assert not np.any(trust_region.is_relevant(divergence, 20.))


def test_nearly_certain_policies_lose_no_digits():
  pi, mu = np.array([0., -60.]), np.array([-60., 0.])
  divergence, = trust_region.kl_to_implied(
      pi[np.newaxis, np.newaxis], mu[np.newaxis, np.newaxis], 1.)
  # min(pi, mu) is e^-60 for both, so the implied policy is a coin.
  np.testing.assert_allclose(divergence, [np.log(2)], rtol=1e-5)


def test_relevant_are_divergences_below_the_threshold_and_nan():
  divergences = tf.constant([[.1, .3, .5, np.nan, np.inf]])
  np.testing.assert_array_equal(
      trust_region.is_relevant(divergences, .3),
      [[True, False, False, True, False]])
  assert np.all(trust_region.is_relevant(divergences, None))


def test_no_gradient_flows():
  logits = tf.Variable(tf.random.stateless_normal([2, 3, A], seed=[1, 2]))
  with tf.GradientTape() as tape:
    divergence = trust_region.kl_to_implied(logits, 0. * logits, 1.)
  assert tape.gradient(divergence, logits) is None


def test_shapes_are_checked():
  with pytest.raises(ValueError):
    trust_region.kl_to_implied(np.zeros([2, 3, A]), np.zeros([2, 3, A + 1]), 1.)


# Gradient ascent on the case of proposition 2. Expectations over actions are
# exact; ratios, targets and the region are the project's own.


def _weights(pi, mu, threshold):
  """Returns V-trace's advantage of each action, 0 if masked, [2]."""
  logits = tf.math.log(tf.stack([pi, mu]))[:, tf.newaxis, tf.newaxis]
  relevant = trust_region.is_relevant(
      trust_region.kl_to_implied(logits[0], logits[1], 1.), threshold)
  return vtrace.from_importance_weights(
      (tf.math.log(pi) - tf.math.log(mu))[tf.newaxis],
      discounts=tf.zeros([1, 2]), rewards=Q[np.newaxis],
      values=tf.zeros([1, 2]), bootstrap_value=tf.zeros([2]),
      mask=tf.tile(relevant, [1, 2])).pg_advantages[0]


def _gradient(pi, share, threshold=None):
  """Computes the policy gradient of logits, `share` of the data on-policy."""
  pi, mu = tf.cast(pi, tf.float32), tf.constant(MU, tf.float32)
  weights = (share * pi * _weights(pi, pi, threshold) +
             (1 - share) * mu * _weights(pi, mu, threshold))
  return weights - pi * tf.reduce_sum(weights)


def _ascend(share, threshold):
  """Returns the second action's probability after many steps, by start."""

  @tf.function(autograph=False)
  def run(starts):
    return tf.map_fn(lambda start: tf.while_loop(
        lambda i, logits: i < 2000,
        lambda i, logits: (
            i + 1,
            logits + 2. * _gradient(tf.nn.softmax(logits), share, threshold)),
        (0, tf.math.log([1 - start, start])))[1], starts)

  return tf.nn.softmax(run(tf.constant([.05, .9])))[:, 1].numpy()


def test_proposition_2_the_gradient_leads_away_from_the_best_action():
  np.testing.assert_allclose(_gradient(PI, 0.), [.25, -.25], rtol=1e-5)
  np.testing.assert_allclose(_gradient(PI, 1.), [-.75, .75], rtol=1e-5)
  # omega moves with pi, so not to (1, 0) but to where omega Q is equal.
  np.testing.assert_allclose(_ascend(0., None), .25, rtol=1e-3)


@pytest.mark.parametrize('share, values', [
    (1 / 8, (2, 1.5)), (1 / 4, (2, 2)), (1 / 2, (2, 3))])
def test_proposition_3_data_on_policy_repairs_the_values(share, values):
  # A gradient of pi_a (Q_a - mean of Q) for each action.
  expected = PI * (np.array(values) - PI @ values)
  np.testing.assert_allclose(
      _gradient(PI, share), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('share, ends', [
    (1 / 8, .318182), (1 / 4, .5), (.3, .7), (.35, 1.), (1 / 2, 1.)])
@pytest.mark.slow
def test_proposition_3_less_than_a_third_on_policy_is_no_repair(share, ends):
  if share < 1 / 3:
    assert round(.5 * (1 - share) / (2 - 5 * share), 6) == ends
  # Just above a third the way to 1 is long.
  np.testing.assert_allclose(_ascend(share, None), ends, rtol=2e-3)


@pytest.mark.parametrize('share', [1 / 8, 1 / 4, 1 / 2])
@pytest.mark.slow
def test_within_the_region_the_best_action_is_reached(share):
  assert np.all(_ascend(share, .1) > .97)
