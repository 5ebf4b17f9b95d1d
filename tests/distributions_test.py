"""Categorical policies against NumPy in float64."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import distributions

T, B, A = 4, 3, 5


def _logits(seed=0, shape=(T, B, A)):
  return 2 * np.random.default_rng(seed).normal(size=shape)


def _log_softmax(logits):
  return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


@pytest.mark.parametrize('dtype', [np.int32, np.int64])
def test_log_prob_is_the_log_softmax_of_the_action(dtype):
  actions = np.random.default_rng(1).integers(A, size=[T, B]).astype(dtype)
  expected = np.take_along_axis(
      _log_softmax(_logits()), actions[..., None], axis=-1)[..., 0]
  np.testing.assert_allclose(
      distributions.log_prob(_logits(), actions), expected, rtol=1e-5)


@pytest.mark.parametrize('shape', [[B], [1, B], [T, 1], [T, B, 1]])
def test_log_prob_does_not_broadcast(shape):
  with pytest.raises(ValueError, match='actions'):
    distributions.log_prob(_logits(), np.zeros(shape, np.int32))


def test_log_prob_refuses_actions_out_of_range():
  with pytest.raises(tf.errors.InvalidArgumentError):
    distributions.log_prob(_logits(), np.full([T, B], A, np.int32))


def test_entropy_is_minus_the_expected_log_prob():
  log_probs = _log_softmax(_logits())
  np.testing.assert_allclose(
      distributions.entropy(_logits()),
      -np.sum(np.exp(log_probs) * log_probs, axis=-1), rtol=1e-5)


def test_kl_divergence_is_the_expected_log_ratio_under_the_first():
  p, q = _log_softmax(_logits(0)), _log_softmax(_logits(1))
  np.testing.assert_allclose(
      distributions.kl_divergence(_logits(0), _logits(1)),
      np.sum(np.exp(p) * (p - q), axis=-1), rtol=1e-4)


def test_kl_divergence_does_not_broadcast():
  with pytest.raises(ValueError, match='q_logits'):
    distributions.kl_divergence(_logits(), _logits(shape=(B, A)))


def test_an_illegal_action_has_no_part_in_anything():
  logits = tf.constant([[-np.inf, 0.0, 1.0]], tf.float32)
  legal = logits[:, 1:]
  with tf.GradientTape(persistent=True) as tape:
    tape.watch([logits, legal])
    pairs = [
        (distributions.entropy(logits), distributions.entropy(legal)),
        (distributions.log_prob(logits, [1]),
         distributions.log_prob(legal, [0])),
        (distributions.kl_divergence(logits, tf.constant([[-np.inf, 2.0, 0]])),
         distributions.kl_divergence(legal, tf.constant([[2.0, 0]]))),
    ]
  for masked, plain in pairs:
    np.testing.assert_allclose(masked, plain, rtol=1e-5)
    gradient = tape.gradient(masked, logits)
    assert gradient[0, 0] == 0
    np.testing.assert_allclose(
        gradient[:, 1:], tape.gradient(plain, legal), atol=1e-6)
  samples = distributions.sample(tf.repeat(logits, 200, axis=0), [0, 1])
  assert set(samples.numpy()) == {1, 2}


def test_samples_follow_the_probabilities():
  logits = _logits(shape=(A,))
  n = 20_000
  samples = distributions.sample(np.tile(logits, [n, 1]), [3, 4])
  frequencies = np.bincount(samples, minlength=A) / n
  probabilities = np.exp(_log_softmax(logits))
  deviations = np.sqrt(probabilities * (1 - probabilities) / n)
  np.testing.assert_array_less(
      np.abs(frequencies - probabilities), 4 * deviations)


def test_samples_are_a_function_of_the_seed():
  logits = tf.zeros([T, B, A])
  samples = distributions.sample(logits, [1, 2])
  assert samples.shape == [T, B] and samples.dtype == tf.int32
  compiled = tf.function(
      distributions.sample,
      input_signature=[tf.TensorSpec([None, None, A]),
                       tf.TensorSpec([2], tf.int32)])
  np.testing.assert_array_equal(compiled(logits, tf.constant([1, 2])), samples)
  for other in [1, 3], [2, 2]:
    assert np.any(distributions.sample(logits, other) != samples)


@pytest.mark.parametrize('seed', [7, [7], [7, 7, 7]])
def test_sample_refuses_a_seed_that_has_not_two_parts(seed):
  with pytest.raises(ValueError, match='seed'):
    distributions.sample(tf.zeros([B, A]), seed)
