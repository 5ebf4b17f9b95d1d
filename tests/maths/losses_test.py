"""Masks, gradients and shapes of losses, and the clipping of rewards."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.maths import losses

T, B = 4, 3


@pytest.fixture(name='batch')
def _batch():
  rng = np.random.default_rng(0)
  mask = np.ones([T, B], np.float32)
  mask[1, 2] = mask[3, 0] = 0
  batch = {name: tf.constant(rng.normal(size=[T, B]), tf.float32) for name in (
      'log_probs', 'entropies', 'advantages', 'vs', 'values')}
  batch['log_probs'] -= 1  # Densities are above 1 here and there.
  return {**batch, 'mask': tf.constant(mask)}


def _call(loss, batch):
  return getattr(losses, loss)(*(batch[k] for k in ARGUMENTS[loss]))


ARGUMENTS = {
    'policy_gradient_loss': ('log_probs', 'advantages', 'mask'),
    'baseline_loss': ('vs', 'values', 'mask'),
    'entropy_loss': ('entropies', 'mask'),
}


@pytest.mark.parametrize('loss', ARGUMENTS)
def test_masked_transitions_do_not_count(batch, loss):
  expected, mask = _call(loss, batch), batch['mask'] > 0
  others = {name: tf.where(mask, x, 1e3) for name, x in batch.items()}
  np.testing.assert_allclose(
      _call(loss, {**others, 'mask': mask}), expected, rtol=1e-6)


@pytest.mark.parametrize('epsilon', [0.0, 1e-6, 0.1])
def test_epsilon_damps_the_gradient_of_unlikely_actions(batch, epsilon):
  """d log(pi + epsilon) = pi / (pi + epsilon) d log pi."""
  log_probs = batch['log_probs'] * 8  # Some actions are unlikelier than 1e-6.
  with tf.GradientTape() as tape:
    tape.watch(log_probs)
    loss = losses.policy_gradient_loss(
        log_probs, batch['advantages'], batch['mask'], epsilon)
  pi = np.exp(log_probs.numpy().astype(np.float64))
  weights = batch['advantages'].numpy() * batch['mask'].numpy()
  np.testing.assert_allclose(
      loss, -np.sum(weights * np.log(pi + epsilon), axis=0), rtol=1e-5)
  np.testing.assert_allclose(
      -tape.gradient(loss, log_probs), weights * pi / (pi + epsilon),
      atol=1e-5)
  assert np.min(pi) < 1e-6


@pytest.mark.parametrize('loss,target', [
    ('policy_gradient_loss', 'advantages'), ('baseline_loss', 'vs')])
def test_no_gradient_flows_through_targets(batch, loss, target):
  with tf.GradientTape() as tape:
    tape.watch(batch[target])
    value = _call(loss, batch)
  assert tape.gradient(value, batch[target]) is None


@pytest.mark.parametrize('loss,argument,shape', [
    ('policy_gradient_loss', 'log_probs', [T, 1]),
    ('policy_gradient_loss', 'mask', [1, B]),
    ('baseline_loss', 'vs', [T, B, 1]),
    ('entropy_loss', 'mask', [T, 1])])
def test_shapes_that_would_broadcast_are_refused(batch, loss, argument, shape):
  batch[argument] = tf.zeros(shape, batch[argument].dtype)
  with pytest.raises(ValueError, match='shape'):
    _call(loss, batch)


@pytest.mark.parametrize('name,rewards,expected', [
    ('none', [-20.0, 0.3, 7.0], [-20.0, 0.3, 7.0]),
    ('abs_one', [-20.0, -0.4, 0.0, 0.3, 7.0], [-1.0, -0.4, 0.0, 0.3, 1.0]),
    # 0.3 tanh(-1), 5 tanh(1); read off figure D.1 at -10 and 10.
    ('tanh_asymmetric', [-10.0, -1.0, 0.0, 1.0, 10.0],
     [-0.3, -0.2284783, 0.0, 3.8079708, 5.0]),
    # 1.5 tanh(-1), 1.5 tanh(-0.2), 5 tanh(0.2), 5 tanh(1).
    ('soft_asymmetric', [-5.0, -1.0, 0.0, 1.0, 5.0, 100.0],
     [-1.1423912, -0.2960630, 0.0, 0.9868766, 3.8079708, 5.0]),
])
def test_rewards_are_clipped_as_named(name, rewards, expected):
  np.testing.assert_allclose(
      losses.clip_rewards(tf.constant(rewards), name), expected, atol=1e-6)


def test_mean_is_of_the_transitions_that_count():
  x = np.float32([[1, 2, np.nan], [3, np.nan, np.nan]])
  mask = np.array([[1, 1, 0], [1, 0, 0]])
  np.testing.assert_array_equal(losses.masked_mean(x, mask), [2, 2, 0])
  assert losses.masked_mean(x, mask, axis=None) == 2
