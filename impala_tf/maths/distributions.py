"""Distributions over actions, parameterised by a policy's logits.

A policy's head gives logits, and a distribution gives them their meaning. The
environment's actions decide which one (`of_actions`). TensorFlow Probability is
used here and nowhere else.

All functions work on any leading dimensions: `[B]` in the actor, `[T, B]` in
the learner. Unlike TensorFlow Probability they do not broadcast: logits of one
step with the actions of T steps raise ValueError.

Shapes: P logits a step, A discrete actions, D numbers of a continuous action or
choices of a composed one. Logits are float32 [..., P], and actions [...]
followed by `action_shape`, of `action_dtype`.
"""

import abc
import dataclasses
from typing import ClassVar

from dm_env import specs
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

# Added to the variance of a Gaussian. Otherwise a nearly certain policy would
# have an infinite density, and from 1e-38 on a gradient of NaN.
MIN_VARIANCE = 1e-6

# Logit of an illegal action. Its probability is 0 to the last bit beside any
# legal one. It is finite, since other unrolls are rejected, and no infinity may
# meet a 0 in a divergence.
ILLEGAL_LOGIT = -1e9


@dataclasses.dataclass(frozen=True)
class Distribution(abc.ABC):
  """A kind of action distribution; equal if kind and size are the same."""
  action_dtype: ClassVar[tf.DType]

  @property
  def num_logits(self) -> int:
    """Number of logits of a step, P: the size of the policy's head."""
    return sum(self.num_values)

  @property
  def num_values(self) -> tuple[int, ...]:
    """Number of values of each choice; empty for continuous actions."""
    return ()

  @property
  @abc.abstractmethod
  def action_shape(self) -> tuple[int, ...]:
    """Shape of an action without leading dimensions."""

  @abc.abstractmethod
  def _distribution(self, logits: tf.Tensor) -> tfp.distributions.Distribution:
    """Makes TensorFlow Probability's distribution of logits [..., P]."""

  @abc.abstractmethod
  def encode(self, actions: tf.Tensor) -> tf.Tensor:
    """Encodes actions as a network's input: float32 [..., K]."""

  def log_prob(self, logits: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
    """Computes log-probabilities, or log-densities: float32 [...], in nats.

    A discrete action that is not in [0, A) raises
    `tf.errors.InvalidArgumentError`; on GPU and TPU it gives NaN.
    """
    logits = self._checked('logits', logits)
    actions = tf.convert_to_tensor(actions)
    _check_same_shape('actions', actions.shape,
                      logits.shape[:-1].concatenate(self.action_shape))
    return self._distribution(logits).log_prob(actions)

  def entropy(self, logits: tf.Tensor) -> tf.Tensor:
    """Computes the entropy of each distribution, float32 [...], in nats."""
    return self._distribution(self._checked('logits', logits)).entropy()

  def kl_divergence(self, p_logits: tf.Tensor, q_logits: tf.Tensor
                    ) -> tf.Tensor:
    """Computes KL(p || q), whose expectation is over p: float32 [...], nats."""
    p_logits = self._checked('p_logits', p_logits)
    q_logits = self._checked('q_logits', q_logits)
    _check_same_shape('q_logits', q_logits.shape, p_logits.shape)
    return tfp.distributions.kl_divergence(
        self._distribution(p_logits), self._distribution(q_logits))

  def sample(self, logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Samples one action from each distribution.

    The same seed, int32 [2], and logits give the same actions on the same kind
    of device, but not with and without XLA. For logits of NaN the actions are
    invalid: A on the CPU, or NaN.
    """
    seed = tf.convert_to_tensor(seed, tf.int32)
    _check_same_shape('seed', seed.shape, tf.TensorShape([2]))
    return self._distribution(self._checked('logits', logits)).sample(seed=seed)

  def mode(self, logits: tf.Tensor) -> tf.Tensor:
    """Returns the most probable actions; for a Gaussian, the mean."""
    return self._distribution(self._checked('logits', logits)).mode()

  def _checked(self, name, logits):
    logits = tf.convert_to_tensor(logits, tf.float32)
    _check_same_shape(name, logits.shape[-1:], [self.num_logits])
    return logits


@dataclasses.dataclass(frozen=True)
class Categorical(Distribution):
  """A choice of one of A actions, int32.

  Logits are unnormalised log-probabilities [A]; see `mask_logits`.
  """
  num_actions: int
  action_shape = ()
  action_dtype = tf.int32

  @property
  def num_values(self) -> tuple[int, ...]:
    return (self.num_actions,)

  def __str__(self):
    return f'{self.num_actions} actions'

  def _distribution(self, logits):
    return tfp.distributions.Categorical(logits)

  def encode(self, actions: tf.Tensor) -> tf.Tensor:
    return tf.one_hot(actions, self.num_actions)


@dataclasses.dataclass(frozen=True)
class MultiCategorical(Distribution):
  """Independent choices, of one of nvec[d] each, int32 [D].

  Logits are those of the first choice, then those of the second, and so on.
  Log-probabilities, entropies and divergences are sums over the choices. Values
  that only another choice has have a log-probability of -1e9.
  """
  nvec: tuple[int, ...]  # Number of values of each choice, [D], 1 or more.
  action_dtype = tf.int32

  @property
  def num_values(self) -> tuple[int, ...]:
    return self.nvec

  @property
  def action_shape(self) -> tuple[int, ...]:
    return (len(self.nvec),)

  def __str__(self):
    return f'{len(self.nvec)} choices of {list(self.nvec)} actions'

  def _distribution(self, logits):
    # One distribution of D x max(nvec) serves all choices: values that a choice
    # does not have are illegal.
    most = max(self.nvec)
    leading = [[0, 0]] * (logits.shape.rank - 1)
    choices = [
        tf.pad(choice, [*leading, [0, most - n]], constant_values=ILLEGAL_LOGIT)
        for n, choice in zip(self.nvec, tf.split(logits, self.nvec, axis=-1))]
    return tfp.distributions.Independent(
        tfp.distributions.Categorical(tf.stack(choices, axis=-2)),
        reinterpreted_batch_ndims=1)

  def encode(self, actions: tf.Tensor) -> tf.Tensor:
    return tf.concat(
        [tf.one_hot(actions[..., d], n) for d, n in enumerate(self.nvec)],
        axis=-1)


@dataclasses.dataclass(frozen=True)
class Gaussian(Distribution):
  """A vector of D independent normal variables, float32.

  Of the 2 D logits the first half is the mean; SoftPlus of the second, log(1 +
  exp(x)), is the variance (Mnih et al. 2016, section 9). Each dimension has its
  own variance, unlike in the paper (`SphericalGaussian`).

  Actions are not bounded. Environments clip them; densities are those of the
  sampled actions.
  """
  action_size: int
  action_dtype = tf.float32

  @property
  def num_logits(self) -> int:
    return 2 * self.action_size

  @property
  def action_shape(self) -> tuple[int, ...]:
    return (self.action_size,)

  def __str__(self):
    return f'continuous actions [{self.action_size}]'

  def _distribution(self, logits):
    mean, x = tf.split(logits, 2, axis=-1)
    deviation = tf.sqrt(tf.nn.softplus(x) + MIN_VARIANCE)
    return tfp.distributions.Independent(
        tfp.distributions.Normal(mean, deviation), reinterpreted_batch_ndims=1)

  def encode(self, actions: tf.Tensor) -> tf.Tensor:
    return actions


@dataclasses.dataclass(frozen=True)
class SphericalGaussian(Gaussian):
  """A Gaussian with one variance for all dimensions (Mnih et al. 2016, 9).

  Of its D + 1 logits D are the mean; SoftPlus of the last is the variance.
  """

  @property
  def num_logits(self) -> int:
    return self.action_size + 1

  def entropy(self, logits: tf.Tensor) -> tf.Tensor:
    """Computes the entropy of one dimension, which is equal for all dimensions.

    Section 9's cost is of 1/2 (log(2 pi sigma^2) + 1), not of D times as much.
    """
    return super().entropy(logits) / self.action_size

  def _distribution(self, logits):
    return super()._distribution(tf.concat(
        [logits, *[logits[..., -1:]] * (self.action_size - 1)], axis=-1))


def of_actions(spec: specs.Array) -> Distribution:
  """Chooses the distribution for an environment's actions.

  They are a `DiscreteArray`; a `BoundedArray` of whole numbers [D] from 0 on;
  or floating numbers [D]. Raises ValueError for any other kind.
  """
  if isinstance(spec, specs.DiscreteArray):
    return Categorical(int(spec.num_values))
  if len(spec.shape) == 1 and tf.as_dtype(spec.dtype).is_floating:
    return Gaussian(spec.shape[0])
  if (len(spec.shape) == 1 and isinstance(spec, specs.BoundedArray)
      and not np.any(spec.minimum)):
    maximum = np.broadcast_to(spec.maximum, spec.shape)
    return MultiCategorical(tuple(int(m) + 1 for m in maximum))
  raise ValueError(f'there is no policy for actions like {spec}')


def mask_logits(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
  """Gives illegal actions probability 0, by replacing their logits [..., P].

  They are never sampled, add nothing to entropy and divergence, and no gradient
  flows into their logits. The mask, uint8 [..., P], is 0 for each of them.
  Every choice has at least one legal action.
  """
  _check_same_shape('mask', mask.shape, logits.shape)
  return tf.where(tf.cast(mask, tf.bool), logits, ILLEGAL_LOGIT)


def _check_same_shape(name, shape, wanted):
  """Raises ValueError unless the shapes agree as far as they are known."""
  if not shape.is_compatible_with(wanted):
    raise ValueError(f'{name} must have shape {wanted}, but has {shape}')
