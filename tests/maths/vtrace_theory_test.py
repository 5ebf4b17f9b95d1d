"""V-trace's theory, as tests: section 4.1 and appendix A of the paper.

The paper's operator R is an expectation over trajectories of mu. In a small MDP
it needs no sampling: `_apply` runs `from_importance_weights` on every
trajectory of N steps that exists, and weights v_0 by its probability. It has to
agree with linear algebra in float64, which knows no trajectories.
"""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from impala_tf.maths import vtrace

X, A, N = 3, 3, 3  # States, actions, steps: 3 * (3 * 3)**3 trajectories.
GAMMA = 0.8
TOLERANCE = 1e-5  # The code computes in float32, here with values below 10.

# rho-bar, c-bar and lambda, as theorem 1 wants them: c-bar <= rho-bar.
BOUNDS = [(0.5, 0.5, 1.0), (1.0, 1.0, 1.0), (2.0, 1.0, 1.0), (2.0, 2.0, 0.7),
          (2.0, 0.0, 1.0), (None, 1.0, 1.0), (None, None, 1.0)]


class _Mdp(NamedTuple):
  transitions: np.ndarray  # [X, A, X], p(y|x,a).
  rewards: np.ndarray  # [X, A].
  mu: np.ndarray  # [X, A].
  pi: np.ndarray  # [X, A].


@pytest.fixture(params=[0, 5])
def mdp(request):
  rng = np.random.default_rng(request.param)
  mu, pi = np.exp(rng.normal(size=[2, X, A]))
  mdp = _Mdp(transitions=rng.dirichlet(np.ones(X), size=[X, A]),
             rewards=rng.normal(size=[X, A]),
             mu=mu / mu.sum(axis=1, keepdims=True),
             pi=pi / pi.sum(axis=1, keepdims=True))
  for bound in 0.5, 1.0, 2.0:  # Each clips some ratios, and not all.
    above = mdp.pi / mdp.mu > bound
    assert above.any() and not above.all()
  return mdp


@pytest.fixture
def values():
  return np.random.default_rng(3).normal(size=X)


def _apply(mdp, values, rho_bar=1.0, c_bar=1.0, lambda_=1.0):
  """Computes RV for N steps, [X], with the code under test."""
  # x_0, a_0, x_1, .. x_N of each trajectory; x_0 changes slowest.
  paths = np.indices([X] + [A, X] * N).reshape(1 + 2 * N, -1)
  states, actions, next_states = paths[:-1:2], paths[1::2], paths[2::2]
  probabilities = np.prod(
      mdp.mu[states, actions] * mdp.transitions[states, actions, next_states],
      axis=0)
  returns = vtrace.from_importance_weights(
      log_rhos=np.log(mdp.pi / mdp.mu)[states, actions],
      discounts=np.full(states.shape, GAMMA),
      rewards=mdp.rewards[states, actions],
      values=values[states],
      bootstrap_value=values[next_states[-1]],
      clip_rho_threshold=rho_bar,
      clip_c_threshold=c_bar,
      lambda_=lambda_)
  return (probabilities * returns.vs[0].numpy()).reshape(X, -1).sum(axis=1)


def _bellman(mdp, policy, values):
  """Adds one reward of `policy` to the discounted values of the next step."""
  return (policy * (mdp.rewards + GAMMA * mdp.transitions @ values)).sum(axis=1)


def _value(mdp, policy):
  """Computes V^policy, the one solution of V = r + gamma P V."""
  transitions = np.einsum('xa,xay->xy', policy, mdp.transitions)
  rewards = (policy * mdp.rewards).sum(axis=1)
  return np.linalg.solve(np.eye(X) - GAMMA * transitions, rewards)


def _pi_rho_bar(mdp, rho_bar):
  """Computes the policy of equation 3."""
  weights = np.minimum(np.inf if rho_bar is None else rho_bar * mdp.mu, mdp.pi)
  return weights / weights.sum(axis=1, keepdims=True)


def _truncated(mdp, bound):
  return np.minimum(np.inf if bound is None else bound, mdp.pi / mdp.mu)


def _eta(mdp, rho_bar, c_bar, lambda_):
  """Computes theorem 1's eta for N steps, given each x_0, [X].

  The appendix has infinite N, and "very similar results hold" for this one. As
  in its proof, RV_1 - RV_2 is a weighted sum of V_1 - V_2 over the x_t. Only
  x_N differs: no delta begins there, so that nothing is subtracted from its
  weight gamma^N c_0 .. c_{N-2} rho_{N-1}. So no expected weight is negative if
  c-bar <= rho-bar, as before. Together they are the theorem's eta, but with the
  sum in it ending at t = N:

    1/gamma - (1/gamma - 1) E sum_{t=0}^N gamma^t c_0 .. c_{t-2} rho_{t-1}

  Its terms are not negative, and the first two are 1 and gamma rho_0. So eta is
  at most 1 - (1 - gamma) E rho_0 for every N >= 1.
  """
  cs = lambda_ * _truncated(mdp, c_bar)
  trace = np.einsum('xa,xay->xy', mdp.mu * cs, mdp.transitions)
  expected = (mdp.mu * _truncated(mdp, rho_bar)).sum(axis=1)  # Of t = 1.
  total = np.ones(X)
  for t in range(1, N + 1):
    total += GAMMA**t * expected
    expected = trace @ expected
  return 1 / GAMMA - (1 / GAMMA - 1) * total


def _distance(x, y):
  return np.abs(x - y).max()


# In the last two c-bar exceeds rho-bar. The proof of contraction does not allow
# that, but that of the fixed point does.
@pytest.mark.parametrize(
    'bounds', BOUNDS + [(0.5, 1.0, 1.0), (1.0, None, 1.0)], ids=str)
def test_fixed_point_is_the_value_of_pi_rho_bar(mdp, bounds):
  rho_bar = bounds[0]
  fixed_point = _value(mdp, _pi_rho_bar(mdp, rho_bar))
  assert _distance(_apply(mdp, fixed_point, *bounds), fixed_point) < TOLERANCE
  for policy in [mdp.mu] if rho_bar is None else [mdp.mu, mdp.pi]:
    other = _value(mdp, policy)
    assert _distance(other, fixed_point) > 0.3
    assert _distance(_apply(mdp, other, *bounds), other) > 0.01


@pytest.mark.parametrize('bounds', BOUNDS, ids=str)
def test_contracts_at_no_more_than_theorem_1_allows(mdp, values, bounds):
  beta = (mdp.mu * _truncated(mdp, bounds[0])).sum(axis=1).min()
  eta, rate = _eta(mdp, *bounds).max(), 1 - (1 - GAMMA) * beta
  # They are equal if no trace is left: c-bar or lambda is 0, or N is 1.
  assert eta < rate + 1e-12 and rate < 1
  # R is affine: the worst pair is among those with a difference of 1 or -1 in
  # each state. So the corners stand for all.
  corners = list(itertools.product([-1, 1], repeat=X))
  examples = np.random.default_rng(4).normal(size=[4, X])
  result = _apply(mdp, values, *bounds)
  for difference in [*corners, *examples]:
    moved = _distance(_apply(mdp, values + difference, *bounds), result)
    assert moved < eta * np.abs(difference).max() + TOLERANCE
    assert moved < rate * np.abs(difference).max() + TOLERANCE


@pytest.mark.parametrize('bounds', BOUNDS, ids=str)
def test_values_that_differ_by_a_constant_attain_eta(mdp, values, bounds):
  # Each RV then moves by the sum of its weights, which is eta.
  difference = _apply(mdp, values + 1, *bounds) - _apply(mdp, values, *bounds)
  np.testing.assert_allclose(difference, _eta(mdp, *bounds), atol=TOLERANCE)


@pytest.mark.parametrize(
    'rho_bar,c_bar', [(1.0, 1.0), (2.0, 1.0), (1.0, None), (None, None)])
def test_on_policy_it_is_the_n_step_bellman_target(mdp, values, rho_bar, c_bar):
  mdp = mdp._replace(pi=mdp.mu)
  expected = values
  for _ in range(N):  # Equation 2.
    expected = _bellman(mdp, mdp.mu, expected)
  np.testing.assert_allclose(
      _apply(mdp, values, rho_bar, c_bar), expected, atol=TOLERANCE)
