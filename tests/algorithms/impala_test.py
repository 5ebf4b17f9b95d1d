"""IMPALA's loss against section 4.2 of the paper, term by term in float64."""

import dataclasses
from typing import NamedTuple

from dm_env import specs
import numpy as np
import pytest
from scipy import special
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import impala
from impala_tf.algorithms import table
from impala_tf.maths import distributions
from tests.fixtures import loss_inputs

T, B, A, D, FEATURES = 7, 4, 5, 2, 6
DISCRETE = distributions.Categorical(A)
CONTINUOUS = distributions.Gaussian(D)
SCALE = 0.6  # Of what is continuous: far-off actions are all rounding errors.
both_kinds = pytest.mark.parametrize('policy', [DISCRETE, CONTINUOUS], ids=str)
FIRST, MID = loss_inputs.FIRST, loss_inputs.MID
# Three different bounds that all bind, and no weight of 1.
CONFIG = config_lib.ImpalaConfig(
    discount=0.9, baseline_cost=0.7, entropy_cost=0.3,
    reward_clipping='abs_one', clip_rho_threshold=1.6,
    clip_pg_rho_threshold=2.3, clip_c_threshold=1.1, lambda_=0.8)


class LinearAgent:
  """An agent whose pi and V are linear in observation and memory."""

  def __init__(self, policy=DISCRETE):
    rng = np.random.default_rng(1)
    self.distribution = policy
    scale = 1.0 if policy is DISCRETE else SCALE
    self.policy = tf.Variable(
        rng.normal(scale=scale, size=[FEATURES + 1, policy.num_logits]),
        dtype=tf.float32)
    self.value = tf.Variable(rng.normal(size=[FEATURES + 1]), dtype=tf.float32)
    self.trainable_variables = (self.policy, self.value)

  def unroll(self, env_outputs, actions, core_state):
    """Evaluates unrolls; the core state is one number of each."""
    assert actions.shape[:2] == env_outputs.reward.shape
    observations = env_outputs.observation
    memory = tf.broadcast_to(core_state[tf.newaxis, :, tf.newaxis],
                             observations.shape[:2] + [1])
    features = tf.concat([observations, memory], axis=-1)
    return agent_lib.NetworkOutput(
        tf.linalg.matmul(features, self.policy),
        tf.linalg.matvec(features, self.value))


def _unroll(policy=DISCRETE):
  """Makes unrolls with ends inside, at the first and the last transition."""
  rng = np.random.default_rng(0)
  shape = [T + 1, B]
  scale = 1.0 if policy is DISCRETE else SCALE
  step_type = np.full(shape, MID, np.uint8)
  discount = np.ones(shape, np.float32)
  for t, b in (3, 0), (T, 1):  # Games that end.
    step_type[t, b], discount[t, b] = FIRST, 0
  for t, b in (5, 0), (2, 3):  # Lives lost.
    discount[t, b] = 0
  for t, b in (1, 1), (4, 1), (5, 1), (T, 2), (0, 3):  # Truncations.
    step_type[t, b] = FIRST
  step_type[T - 1, 2] = loss_inputs.LAST  # Its reward counts.
  return loss_inputs.unroll(
      reward=rng.normal(scale=1.5, size=shape),
      observation=rng.normal(size=shape + [FEATURES]),
      action=(np.int32(rng.integers(A, size=shape)) if policy is DISCRETE else
              np.float32(rng.normal(size=shape + [D], scale=scale))),
      logits=rng.normal(size=shape + [policy.num_logits], scale=scale),
      core_state=np.float32(rng.normal(size=[B])),
      step_type=step_type, discount=discount)


def _loss(agent, unroll, config=CONFIG):
  """Computes the loss and its gradients."""
  unroll = tf.nest.map_structure(tf.constant, unroll)
  with tf.GradientTape() as tape:
    whole = config_lib.Config(impala=config)
    output = impala.loss(agent, unroll, whole, config)
  return output, tape.gradient(output.loss, agent.trainable_variables)


def _float64(agent):
  return [v.numpy().astype(np.float64) for v in agent.trainable_variables]


class Evaluation(NamedTuple):
  """Values of pi, mu and V along one unroll, [T+1] each."""
  log_pi: np.ndarray
  log_mu: np.ndarray
  entropy: np.ndarray
  divergence: np.ndarray
  value: np.ndarray


def _categorical(pi, mu, action):
  """Computes log pi(a), log mu(a), H(pi), KL(mu || pi) of logits."""
  pi, mu = special.log_softmax(pi), special.log_softmax(mu)
  return (pi[action], mu[action], -np.sum(np.exp(pi) * pi),
          np.sum(np.exp(mu) * (mu - pi)))


def _gaussian(pi, mu, action):
  """Computes these four of means and inverse SoftPlus of variances."""
  means, variances = zip(*(
      (x[:D], np.log1p(np.exp(x[D:])) + distributions.MIN_VARIANCE)
      for x in (pi, mu)))
  log_densities = [
      -0.5 * np.sum((action - m)**2 / v + np.log(2 * np.pi * v))
      for m, v in zip(means, variances)]
  ratios = variances[1] / variances[0]
  return (*log_densities, 0.5 * np.sum(np.log(2 * np.pi * variances[0]) + 1),
          0.5 * np.sum((means[1] - means[0])**2 / variances[0] + ratios - 1 -
                       np.log(ratios)))


def _evaluate(parameters, unroll, b):
  policy, value = parameters
  actions, mu = unroll.agent_outputs
  say = _categorical if actions.ndim == 2 else _gaussian
  rows = []
  for t in range(T + 1):
    features = np.append(
        unroll.env_outputs.observation[t, b].astype(np.float64),
        unroll.core_state[b])
    rows.append((*say(features @ policy, mu[t, b].astype(np.float64),
                      actions[t, b]), features @ value))
  return Evaluation(*np.transpose(rows))


def _transitions(unroll, b, config):
  """Yields (reward, discount, was truncated) of x_0 to x_{T-1}."""
  env = unroll.env_outputs
  for t in range(T):
    reward = np.clip(np.float64(env.reward[t + 1, b]), -1, 1)
    discount = config.discount * env.discount[t + 1, b]
    truncated = env.step_type[t + 1, b] == FIRST and discount > 0
    yield reward, discount, truncated


def _targets(parameters, unroll, config):
  """Computes vs and advantages by equation 1's double sum, each [T, B].

  No sum reaches over a truncation: the piece before it ends in V of its last
  observation, and the transition itself has no advantage.
  """
  vs, advantages = np.zeros([T + 1, B]), np.zeros([T, B])
  for b in range(B):
    log_pi, log_mu, _, _, values = _evaluate(parameters, unroll, b)
    steps = list(_transitions(unroll, b, config))
    ratio = np.exp(log_pi - log_mu)
    vs[T, b] = values[T]
    for s in range(T):
      vs[s, b], weight = values[s], 1.0
      for t in range(s, T):
        reward, discount, truncated = steps[t]
        if truncated:
          break
        # Without a correction mu counts as pi.
        rho = c = 1.0
        if config.correction == 'vtrace':
          rho = _clipped(ratio[t], config.clip_rho_threshold)
          c = _clipped(ratio[t], config.clip_c_threshold)
        delta = rho * (reward + discount * values[t + 1] - values[t])
        vs[s, b] += weight * delta
        weight *= discount * config.lambda_ * c
    for t, (reward, discount, truncated) in enumerate(steps):
      if not truncated:
        rho = 1.0
        if config.correction in ('vtrace', 'one_step_is'):
          rho = _clipped(ratio[t], config.clip_pg_rho_threshold)
        after = {'vs': vs[t + 1, b], 'value': values[t + 1]}
        advantages[t, b] = rho * (
            reward + discount * after[config.pg_bootstrap] - values[t])
  return vs[:T], advantages


def _clipped(ratio, bound):
  return ratio if bound is None else min(bound, ratio)


def _terms(parameters, unroll, targets, config):
  """Computes the three losses for given targets."""
  vs, advantages = targets
  terms = np.zeros(3)
  for b in range(B):
    log_pi, _, entropies, _, values = _evaluate(parameters, unroll, b)
    for t, (_, _, truncated) in enumerate(_transitions(unroll, b, config)):
      if not truncated:
        epsilon = 1e-6 if config.correction == 'epsilon' else 0.0
        log_prob = np.log(np.exp(log_pi[t]) + epsilon)
        terms += (-log_prob * advantages[t, b],
                  0.5 * (vs[t, b] - values[t])**2,
                  -entropies[t])
  return terms


def _total(terms, config):
  return terms @ (1.0, config.baseline_cost, config.entropy_cost)


def _expected_gradients(parameters, unroll, config):
  """Computes central differences, with the targets held fixed."""
  targets = _targets(parameters, unroll, config)
  gradients = [np.zeros_like(p) for p in parameters]
  for p, gradient in zip(parameters, gradients):
    for i in np.ndindex(p.shape):
      kept, sides = p[i], []
      for p[i] in kept + 1e-5, kept - 1e-5:
        sides.append(_total(_terms(parameters, unroll, targets, config),
                            config))
      p[i] = kept
      gradient[i] = (sides[0] - sides[1]) / 2e-5
  return gradients


@both_kinds
def test_the_inputs_bite(policy):
  unroll = _unroll(policy)
  parameters = _float64(LinearAgent(policy))
  evaluations = [_evaluate(parameters, unroll, b) for b in range(B)]
  ratios = np.array([np.exp(e.log_pi - e.log_mu)[:T] for e in evaluations])
  for bound in (CONFIG.clip_rho_threshold, CONFIG.clip_pg_rho_threshold,
                CONFIG.clip_c_threshold):
    assert 4 < np.sum(ratios > np.float64(bound)) < T * B - 4
  rewards = unroll.env_outputs.reward
  assert rewards.max() > 1 and rewards.min() < -1


UNCLIPPED = dataclasses.replace(
    CONFIG, clip_rho_threshold=None, clip_pg_rho_threshold=None,
    clip_c_threshold=None)
NAMES = ('one_step_is', 'epsilon', 'none', 'value', 'unclipped step of values')
ABLATIONS = (*(dataclasses.replace(CONFIG, correction=c) for c in NAMES[:3]),
             dataclasses.replace(CONFIG, pg_bootstrap='value'),
             dataclasses.replace(UNCLIPPED, correction='one_step_is',
                                 pg_bootstrap='value'))


@both_kinds
@pytest.mark.parametrize('config', [
    CONFIG, config_lib.ImpalaConfig(), UNCLIPPED, *ABLATIONS],
    ids=['different clips', 'defaults', 'no clips', *NAMES])
def test_loss_is_that_of_section_4_2(config, policy):
  agent, unroll = LinearAgent(policy), _unroll(policy)
  output, _ = _loss(agent, unroll, config)
  parameters = _float64(agent)
  terms = _terms(
      parameters, unroll, _targets(parameters, unroll, config), config)
  names = 'policy_gradient', 'baseline', 'entropy'
  for name, expected in zip(names, terms):
    loss = output.metrics[f'loss/{name}']
    assert loss.shape == [B]  # Of each unroll.
    np.testing.assert_allclose(
        tf.reduce_sum(loss), expected, rtol=1e-4, err_msg=name)
  np.testing.assert_allclose(output.loss, _total(terms, config), rtol=1e-4)
  assert output.loss.shape == () and output.loss.dtype == tf.float32
  assert np.any(output.metrics['rho/clipped_share']) == (
      config.clip_rho_threshold is not None)


@both_kinds
@pytest.mark.parametrize('config', [CONFIG, *ABLATIONS], ids=['vtrace', *NAMES])
def test_gradients_are_those_with_vs_and_advantages_held_fixed(config, policy):
  agent, unroll = LinearAgent(policy), _unroll(policy)
  _, gradients = _loss(agent, unroll, config)
  for gradient, expected in zip(
      gradients, _expected_gradients(_float64(agent), unroll, config)):
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-3)


@both_kinds
def test_metrics_off_policy(policy):
  """Steps that a time limit cut off do not count."""
  agent, unroll = LinearAgent(policy), _unroll(policy)
  parameters = _float64(agent)
  # [T, B] each.
  log_pi, log_mu, entropies, divergences, values = np.transpose(
      [_evaluate(parameters, unroll, b) for b in range(B)], (1, 2, 0))[:, :T]
  ratios = np.exp(log_pi - log_mu)
  vs, _ = _targets(parameters, unroll, CONFIG)
  output, _ = _loss(agent, unroll)
  effects = unroll.env_outputs
  counts = ((effects.step_type != FIRST) | (effects.discount == 0))[1:]
  assert not counts.all(axis=0).all()

  def mean(x):
    return [np.mean(x[counts[:, b], b]) for b in range(B)]

  expected = {
      'rho/mean': mean(ratios),
      'rho/clipped_share': mean(ratios > CONFIG.clip_rho_threshold),
      'kl_behaviour_target': mean(divergences),
      'entropy': mean(entropies),
      'explained_variance': 1 - (
          np.var((vs - values)[counts]) / np.var(vs[counts])),
      'value_size': mean(np.abs(values)),
  }
  if agent.distribution.num_values:
    expected['entropy_share'] = np.divide(
        expected['entropy'], np.log(agent.distribution.num_values).sum())
  for name, value in expected.items():
    np.testing.assert_allclose(output.metrics[name], value, rtol=1e-4,
                               err_msg=name)
  np.testing.assert_allclose(
      tf.reduce_sum(output.metrics['loss/total']), output.loss, rtol=1e-4)
  assert set(output.metrics) == set(expected) | {
      'loss/total', 'loss/policy_gradient', 'loss/baseline', 'loss/entropy'}


def test_entropy_is_compared_with_that_of_legal_actions():
  """One or two of many actions may be legal, and both be tried."""
  agent, unroll = LinearAgent(), _unroll()
  mask = np.zeros([T + 1, B, A], np.uint8)
  mask[..., :2] = 1
  mask[::2, :, 1] = 0  # There is no choice.
  unroll = unroll._replace(env_outputs=unroll.env_outputs._replace(
      action_mask=mask))
  output, _ = _loss(agent, unroll)
  env = unroll.env_outputs
  counts = ((env.step_type != FIRST) | (env.discount == 0))[1:]
  entropies = np.transpose([_evaluate(_float64(agent), unroll, b)
                            for b in range(B)], (1, 2, 0))[2, :T]
  largest = np.log(2) * (mask[:T, :, 1] * counts).sum()
  np.testing.assert_allclose(
      output.metrics['entropy_share'], (entropies * counts).sum() / largest,
      rtol=1e-4)


def test_weights_of_unrolls_are_factors_of_their_losses():
  agent, unroll = LinearAgent(), _unroll()
  weights = np.array([1., .5, 0., .25], np.float32)
  output, _ = _loss(agent, unroll)
  weighted, _ = _loss(agent, unroll._replace(
      origin=types.Origin(np.arange(B) > 0, weights=weights)))
  np.testing.assert_allclose(
      weighted.metrics['loss/total'], weights * output.metrics['loss/total'],
      rtol=1e-6)
  np.testing.assert_allclose(
      weighted.loss, np.sum(weights * output.metrics['loss/total']), rtol=1e-5)


def test_a3cs_networks_both_learn_and_entropy_is_that_of_one_dimension():
  config = config_lib.Config(
      experiment=config_lib.ExperimentConfig(algorithm='a3c_continuous'),
      agent=config_lib.AgentConfig(torso='dense', hidden_size=6),
      impala=config_lib.ImpalaConfig(correction='none', entropy_cost=1e-4))
  rng = np.random.default_rng(0)
  algorithm = table.get(config)
  agent = algorithm.make_agent(
      config, distributions.Gaussian(D), 'float32', False)
  agent.build(specs.Array((3,), np.float32))
  unroll = tf.nest.map_structure(tf.constant, loss_inputs.unroll(
      np.float32(rng.normal(size=[T + 1, B, D])), (), np.full([T + 1, B], .3),
      observation=rng.normal(size=[T + 1, B, 3])))
  actions = unroll.agent_outputs.action
  logits = agent.unroll(unroll.env_outputs, actions, ()).policy_logits
  unroll = unroll._replace(agent_outputs=types.AgentOutput(actions, logits))
  with tf.GradientTape() as tape:
    output = algorithm.loss(agent, unroll, config, config.impala)
  for gradient in tape.gradient(output.loss, agent.trainable_variables):
    assert np.any(gradient.numpy() != 0)
  variance = np.log1p(np.exp(logits[:T, :, -1].numpy().astype(np.float64)))
  np.testing.assert_allclose(
      output.metrics['loss/entropy'],
      -np.sum(.5 * (np.log(2 * np.pi * variance) + 1), axis=0), rtol=1e-4)
  np.testing.assert_allclose(output.metrics['rho/mean'], 1, rtol=1e-5)
