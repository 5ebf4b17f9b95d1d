"""The policy's distribution over actions, parameterised by `logits`.

The rest of the system knows a policy only as the tensor its head puts out and
these functions of it; a policy over continuous actions means other functions
with these signatures. TensorFlow Probability is used here and nowhere else.

All functions work on any leading dimensions (`[B]` in the actor, `[T, B]` in
the learner) and refuse the broadcasting that TensorFlow Probability would do:
logits of one step against the actions of T steps is a mistake here. An illegal
action may have the logit -inf.
"""

import tensorflow as tf
import tensorflow_probability as tfp

_Categorical = tfp.distributions.Categorical


def log_prob(logits: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
  """Log-probability of each action.

  Args:
    logits: float32 [..., A], unnormalised log-probabilities.
    actions: int32 or int64 [...], in [0, A).

  Returns:
    float32 [...], in nats.

  Raises:
    ValueError: shapes do not belong together.
    tf.errors.InvalidArgumentError: an action is not in [0, A). On GPU and TPU
      its log-probability is NaN instead.
  """
  logits = tf.convert_to_tensor(logits, tf.float32)
  actions = tf.convert_to_tensor(actions)
  _check_same_shape('actions', actions.shape, logits.shape[:-1])
  return _Categorical(logits).log_prob(actions)


def entropy(logits: tf.Tensor) -> tf.Tensor:
  """Entropy of each distribution.

  Args:
    logits: float32 [..., A], unnormalised log-probabilities.

  Returns:
    float32 [...], in nats, between 0 and log A.
  """
  return _Categorical(tf.convert_to_tensor(logits, tf.float32)).entropy()


def kl_divergence(p_logits: tf.Tensor, q_logits: tf.Tensor) -> tf.Tensor:
  """Kullback-Leibler divergence KL(p || q).

  Args:
    p_logits: float32 [..., A], of the distribution the expectation is over.
    q_logits: float32 [..., A].

  Returns:
    float32 [...], in nats.

  Raises:
    ValueError: shapes differ.
  """
  p_logits = tf.convert_to_tensor(p_logits, tf.float32)
  q_logits = tf.convert_to_tensor(q_logits, tf.float32)
  _check_same_shape('q_logits', q_logits.shape, p_logits.shape)
  return tfp.distributions.kl_divergence(
      _Categorical(p_logits), _Categorical(q_logits))


def sample(logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
  """Samples one action from each distribution.

  The same seed and logits give the same actions on the same kind of device (but
  not with and without XLA), so the caller must change the seed between calls.

  Args:
    logits: float32 [..., A], unnormalised log-probabilities.
    seed: int32 [2].

  Returns:
    int32 [...], in [0, A) where at least one logit is finite. Where none is, as
    in a network that has diverged to NaN, the CPU gives A, which is no action.

  Raises:
    ValueError: seed is not of shape [2].
  """
  logits = tf.convert_to_tensor(logits, tf.float32)
  seed = tf.convert_to_tensor(seed, tf.int32)
  _check_same_shape('seed', seed.shape, tf.TensorShape([2]))
  return _Categorical(logits).sample(seed=seed)


def _check_same_shape(name, shape, wanted):
  """Raises ValueError unless the shapes agree as far as they are known."""
  if not shape.is_compatible_with(wanted):
    raise ValueError(f'{name} must have shape {wanted}, but has {shape}')
