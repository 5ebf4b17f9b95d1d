"""Hyper-parameters of an update that may change while a run goes on."""

from typing import Dict, Optional

import tensorflow as tf

from impala_tf import config as config_lib


class Hyperparameters(tf.Module):
  """Hyper-parameters as variables, for population based training (appendix F).

  They are read at every update, so assigning one takes effect with the next and
  compiles nothing anew. A run begins with its config's values and goes on with
  those of its checkpoint.

  Attributes:
    learning_rate: float32 [], before annealing.
    epsilon: float32 [], inside of RMSProp's root.
    entropy_cost: float32 [], weight of the entropy bonus.
    max_gradient_norm: float32 [], threshold of gradient clipping; None where
      gradients are not clipped, which cannot change within a run.
  """

  def __init__(self, config: config_lib.Config):
    """Creates the variables, under the strategy's scope that is open.

    Args:
      config: a run's config, whose values they begin with.
    """
    super().__init__(name='hyperparameters')
    self.learning_rate = _variable(config.optimizer.learning_rate)
    self.epsilon = _variable(config.optimizer.epsilon)
    self.entropy_cost = _variable(config.impala.entropy_cost)
    self.max_gradient_norm: Optional[tf.Variable] = None
    if config.optimizer.max_gradient_norm is not None:
      self.max_gradient_norm = _variable(config.optimizer.max_gradient_norm)

  def row(self) -> Dict[str, float]:
    """Returns their present values for a row of metrics.

    The learning rate is left out: each update tells its own, annealed one.
    """
    values = {'epsilon': self.epsilon, 'entropy_cost': self.entropy_cost}
    if self.max_gradient_norm is not None:
      values['max_gradient_norm'] = self.max_gradient_norm
    return {name: float(value.numpy()) for name, value in values.items()}


def _variable(value: float) -> tf.Variable:
  return tf.Variable(value, trainable=False, dtype=tf.float32)
