"""LASER's loss against the supplement's algorithm 1, in float64."""

from dm_env import specs
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.algorithms import impala
from impala_tf.algorithms import laser
from impala_tf.maths import distributions
from tests.fixtures import loss_inputs

T, B, A = 6, 4, 3
NUM_REPLAYED = 3
DISCRETE = distributions.Categorical(A)
IMPALA = config_lib.ImpalaConfig(
    discount=0.9, baseline_cost=0.7, entropy_cost=0.3, reward_clipping='none',
    clip_rho_threshold=1.2, clip_pg_rho_threshold=1.5, clip_c_threshold=0.9)


def _config(**options):
  return config_lib.Config(
      experiment=config_lib.ExperimentConfig(algorithm='laser'),
      impala=IMPALA, laser=config_lib.LaserConfig(**{'threshold': .1,
                                                     **options})
  )


def _agent(policy=DISCRETE):
  rng = np.random.default_rng(3)
  return loss_inputs.TableAgent(
      rng.normal(size=[T + 1, B, policy.num_logits]),
      rng.normal(size=[T + 1, B]), policy)


def _unroll(policy=DISCRETE, noise=1., origin=True):
  """Makes a batch played by a policy near or far from `_agent`'s."""
  rng = np.random.default_rng(4)
  shape = [T + 1, B]
  step_type = np.full(shape, loss_inputs.MID, np.uint8)
  step_type[3, 1] = loss_inputs.FIRST  # A time limit.
  behaviour = _agent(policy).logits.numpy() + rng.normal(
      scale=noise, size=[T + 1, B, policy.num_logits])
  is_replayed = np.arange(B) >= B - NUM_REPLAYED
  return tf.nest.map_structure(tf.constant, loss_inputs.unroll(
      reward=rng.normal(size=shape), observation=rng.normal(size=shape + [2]),
      action=tf.cast(policy.sample(behaviour, [1, 2]),
                     policy.action_dtype).numpy(),
      logits=behaviour, step_type=step_type,
      origin=types.Origin(is_replayed) if origin else ()))


def _loss(agent, unroll, config):
  with tf.GradientTape() as tape:
    output = laser.loss(agent, unroll, config, config.impala)
  return output, [gradient.numpy() for gradient in tape.gradient(
      output.loss, agent.trainable_variables)]


def _log_softmax(logits):
  logits = logits.numpy().astype(np.float64)
  return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


def _divergences(agent, unroll, trust_region):
  """Computes each state's divergence by its definition, [T, B]."""
  log_pi = _log_softmax(agent.logits)[:T]
  log_mu = _log_softmax(unroll.agent_outputs.policy_logits)[:T]
  pi, other = np.exp(log_pi), np.exp(log_mu)
  if trust_region == 'implied':
    other = np.minimum(IMPALA.clip_rho_threshold * other, pi)
    other /= other.sum(axis=-1, keepdims=True)
  return np.sum(pi * np.log(pi / other), axis=-1)


def _expected(agent, unroll, relevant, entropy_of):
  """Computes the three losses [B] with equation 2's double sum."""
  values = agent.baseline.numpy().astype(np.float64)
  rewards = unroll.env_outputs.reward.numpy().astype(np.float64)
  action = unroll.agent_outputs.action.numpy()
  log_pi = _log_softmax(agent.logits)
  log_mu = _log_softmax(unroll.agent_outputs.policy_logits)
  terms = np.zeros([3, B])
  for b in range(B):
    lam = relevant[:, b].astype(float)
    if b == 1:
      lam[2] = 0.  # x_3 is FIRST after a time limit.
    ratio = np.exp([log_pi[t, b, action[t, b]] - log_mu[t, b, action[t, b]]
                    for t in range(T)])
    rho = np.minimum(IMPALA.clip_rho_threshold, ratio)
    c = np.minimum(IMPALA.clip_c_threshold, ratio)
    delta = rho * (rewards[1:, b] + .9 * values[1:, b] - values[:T, b])
    vs = values[:, b].copy()
    for s in range(T):
      for t in range(s, T):
        vs[s] += .9**(t - s) * np.prod((lam * c)[s:t]) * lam[t] * delta[t]
    advantages = np.minimum(IMPALA.clip_pg_rho_threshold, ratio) * (
        rewards[1:, b] + .9 * vs[1:] - values[:T, b])
    for t in range(T):
      pi = log_pi[t, b]
      terms[:, b] += lam[t] * np.array([
          -pi[action[t, b]] * advantages[t], .5 * (vs[t] - values[t, b])**2,
          entropy_of[b] * np.sum(np.exp(pi) * pi)])
  return terms


@pytest.mark.parametrize('trust_region, options, entropy_of', [
    ('implied', {}, [1, 0, 0, 0]),
    ('behaviour', {'entropy_of_replayed': True}, [1, 1, 1, 1])])
def test_loss_is_that_of_algorithm_1(trust_region, options, entropy_of):
  agent, unroll = _agent(), _unroll()
  config = _config(trust_region=trust_region, **options)
  divergences = _divergences(agent, unroll, trust_region)
  relevant = divergences < config.laser.threshold
  # The inputs bite: some are rejected, of fresh and of replayed unrolls.
  assert 0 < relevant[:, 0].sum() < T and .2 < relevant[:, 1:].mean() < .8
  output, (of_logits, of_values) = _loss(agent, unroll, config)
  terms = _expected(agent, unroll, relevant, entropy_of)
  for name, expected in zip(('policy_gradient', 'baseline', 'entropy'), terms):
    np.testing.assert_allclose(
        output.metrics[f'loss/{name}'], expected, rtol=1e-4, atol=1e-6,
        err_msg=name)
  np.testing.assert_allclose(
      output.loss, np.sum(terms.T @ (1., .7, .3)), rtol=1e-4)
  # Neither policy nor baseline learn anything at a step that is rejected.
  counts = relevant.copy()
  counts[2, 1] = False
  np.testing.assert_array_equal(np.any(of_logits[:T], axis=-1), counts)
  np.testing.assert_array_equal(of_values[:T] != 0, counts)
  np.testing.assert_allclose(
      output.metrics['relevant_share'], relevant.mean(axis=0), rtol=1e-6)
  name = {'implied': 'kl_implied',
          'behaviour': 'kl_target_behaviour'}[trust_region]
  np.testing.assert_allclose(
      output.metrics[name], divergences.mean(axis=0), rtol=1e-4)


def test_explained_variance_is_of_steps_within_the_region():
  """A rejected step's target is the value itself, which is no success."""
  agent, unroll = _agent(), _unroll()
  names = 'explained_variance', 'relevant_share'
  everything, some, nothing = (
      [_loss(agent, unroll, _config(
          trust_region='behaviour', threshold=threshold))[0].metrics[name]
       for name in names] for threshold in (None, .25, 1e-9))
  assert np.mean(everything[1]) == 1 > np.mean(some[1]) > 0
  assert some[0] < 1 and some[0] != everything[0]
  assert nothing[0] == np.mean(nothing[1]) == 0


def test_without_region_and_replay_it_is_impala():
  agent, unroll = _agent(), _unroll(origin=False)
  config = _config(threshold=None)
  output, _ = _loss(agent, unroll, config)
  expected = impala.loss(agent, unroll, config, config.impala)
  np.testing.assert_array_equal(output.loss, expected.loss)
  np.testing.assert_array_equal(output.metrics['relevant_share'], np.ones(B))


def test_continuous_actions_have_the_region_of_the_behaviour_only():
  policy = distributions.Gaussian(2)
  agent, unroll = _agent(policy), _unroll(policy, noise=.5)
  config = _config(trust_region='behaviour')
  output, (of_logits, _) = _loss(agent, unroll, config)
  relevant = policy.kl_divergence(
      agent.logits, unroll.agent_outputs.policy_logits).numpy() < .1
  relevant[2, 1] = False
  assert 0 < output.metrics['relevant_share'].numpy().mean() < 1
  np.testing.assert_array_equal(np.any(of_logits[:T], axis=-1), relevant[:T])
  with pytest.raises(config_lib.ConfigError, match="set it to 'behaviour'"):
    laser.make_agent(_config(), policy, 'float32', False)


def test_popart_leaves_rejected_steps_out_of_its_moments():
  config = _config().replaced('agent', torso='mlp', hidden_size=8).replaced(
      'impala', popart_step_size=1e-2)
  agent = laser.make_agent(
      config, distributions.Categorical(A), 'float32', False)
  agent.build(specs.Array((2,), np.float32))
  output = laser.loss(agent, _unroll(noise=2.), config, config.impala)
  share = output.metrics['relevant_share'].numpy().mean()
  assert .1 < share < .9
  counted = float(output.totals.count[0])
  assert round(share * T * B) - 1 <= counted <= round(share * T * B)
  before = agent.popart.moments.mean.numpy()
  laser.ALGORITHM.after_step(agent, output.totals, config)
  assert agent.popart.moments.mean.numpy() != before
