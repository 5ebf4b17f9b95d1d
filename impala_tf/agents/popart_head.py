"""The variables of PopArt: moments of each task, and the head they rescale."""

import tensorflow as tf

from impala_tf.agents import layers
from impala_tf.maths import popart
from impala_tf.maths import running_moments


class PopArtHead(tf.Module):
  """A linear head with an output for each task, and the moments of each.

  The moments are not trained, and actors do not need them.
  """

  def __init__(self, linear: layers.Linear):
    """Begins with mean 0 and variance 1; `linear` has no activation."""
    super().__init__(name='popart')
    self.num_tasks = linear.size
    self._linear = linear
    self._mean = tf.Variable(tf.zeros([self.num_tasks]), trainable=False)
    self._variance = tf.Variable(tf.ones([self.num_tasks]), trainable=False)

  @property
  def moments(self) -> running_moments.Moments:
    return running_moments.Moments(tf.convert_to_tensor(self._mean),
                                   tf.convert_to_tensor(self._variance))

  def update(self, totals: running_moments.Totals, step_size: float) -> None:
    """Moves the moments, and the head so that no value changes.

    The optimiser's slots stay as they are. `totals` are sums over all
    replicas, each of which calls this; for `step_size` see `popart.update`.
    """
    old = self.moments
    new = popart.update(old, totals, step_size)
    rescaled = popart.rescale(
        self._linear.kernel, self._linear.bias, old, new)
    for variable, value in zip(
        (self._mean, self._variance, self._linear.kernel, self._linear.bias),
        (*new, *rescaled)):
      # `assign` is not for replicas, which here all write the same.
      tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
