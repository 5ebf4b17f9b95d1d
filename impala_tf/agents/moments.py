"""Running moments as variables: of observations, and of PopArt's targets."""

from typing import Iterable, Sequence

import tensorflow as tf

from impala_tf.agents import layers
from impala_tf.maths import popart
from impala_tf.maths import running_moments


class _MomentVariables(tf.Module):
  """Mean and variance as untrained variables, 0 and 1 at first."""

  def __init__(self, name: str, shape: Sequence[int], dtype: tf.DType):
    super().__init__(name=name)
    self._mean = tf.Variable(tf.zeros(shape, dtype), trainable=False)
    self._variance = tf.Variable(tf.ones(shape, dtype), trainable=False)

  @property
  def moments(self) -> running_moments.Moments:
    return running_moments.Moments(tf.convert_to_tensor(self._mean),
                                   tf.convert_to_tensor(self._variance))


def _assign(variables: Iterable[tf.Variable],
            values: Iterable[tf.Tensor]) -> None:
  """Assigns values inside a replica; each replica must assign the same."""
  for variable, value in zip(variables, values):
    # `assign` is not for replicas.
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)


class ObservationNormaliser(_MomentVariables):
  """Running mean and variance, float64, of an agent's vectors.

  The learner moves them with every update, by the observations of its batch.
  Actors need them as they need parameters.
  """

  def __init__(self, shape: Sequence[int]):
    super().__init__('observation_normaliser', shape, tf.float64)
    self._count = tf.Variable(0., trainable=False, dtype=tf.float64)

  @property
  def published_variables(self) -> tuple[tf.Variable, ...]:
    return self._mean, self._variance

  def __call__(self, observations: tf.Tensor) -> tf.Tensor:
    return running_moments.normalise(observations, self.moments)

  def totals(self, observations: tf.Tensor) -> running_moments.Totals:
    """Sums up one replica's observations [T, B, F] for `update`."""
    return running_moments.totals(observations, self._mean)

  def update(self, totals: running_moments.Totals) -> None:
    """Adds observations, summed over all replicas; every replica calls this."""
    count = tf.convert_to_tensor(self._count)
    new = running_moments.update(count, self.moments, totals)
    _assign((self._count, self._mean, self._variance),
            (count + totals.count, *new))


class PopArtHead(_MomentVariables):
  """A linear head with an output for each task, and the moments of each.

  Actors do not need the moments.
  """

  def __init__(self, linear: layers.Linear):
    super().__init__('popart', [linear.size], tf.float32)
    self.num_tasks = linear.size
    self._linear = linear

  def update(self, totals: running_moments.Totals, step_size: float) -> None:
    """Moves the moments, and the head so that no value changes.

    The optimiser's slots stay as they are. `totals` are sums over all
    replicas, each of which calls this; for `step_size` see `popart.update`.
    """
    old = self.moments
    new = popart.update(old, totals, step_size)
    rescaled = popart.rescale(self._linear.kernel, self._linear.bias, old, new)
    _assign((self._mean, self._variance, self._linear.kernel,
             self._linear.bias), (*new, *rescaled))
