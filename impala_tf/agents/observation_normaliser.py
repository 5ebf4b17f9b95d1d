"""The variables of running moments, which normalise observations."""

from typing import Sequence, Tuple

import dm_env
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.maths import running_moments


class ObservationNormaliser(tf.Module):
  """Running mean and variance of an agent's vectors.

  The learner moves them with every update, by the observations of its batch.
  They are not trained, but actors need them as they need parameters.
  """

  def __init__(self, shape: Sequence[int]):
    """Begins with mean 0 and variance 1, float64, which change nothing."""
    super().__init__(name='observation_normaliser')
    self._count = tf.Variable(0., trainable=False, dtype=tf.float64)
    self._mean = tf.Variable(tf.zeros(shape, tf.float64), trainable=False)
    self._variance = tf.Variable(tf.ones(shape, tf.float64), trainable=False)

  @property
  def moments(self) -> running_moments.Moments:
    return running_moments.Moments(tf.convert_to_tensor(self._mean),
                                   tf.convert_to_tensor(self._variance))

  @property
  def published_variables(self) -> Tuple[tf.Variable, ...]:
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
    for variable, value in zip((self._count, self._mean, self._variance),
                               (count + totals.count, *new)):
      # `assign` is not for replicas, which here all write the same.
      tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)


def make(observation_spec: dm_env.specs.Array,
         num_features: int) -> ObservationNormaliser:
  """Makes the normaliser of F features, or of observations without them.

  Raises ConfigError if observations are images alone.
  """
  if num_features:
    return ObservationNormaliser([num_features])
  if len(observation_spec.shape) != 3:
    return ObservationNormaliser(observation_spec.shape)
  raise config_lib.ConfigError(
      'AgentConfig.normalise_observations = True is for vectors, but '
      f'observations are images {list(observation_spec.shape)} alone; set it '
      'to False')
