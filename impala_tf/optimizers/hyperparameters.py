"""Hyper-parameters of an update that may change during a run."""

from typing import Callable, NamedTuple

import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib


class Present(NamedTuple):
  """Hyper-parameters of one update, as its loss reads them."""
  entropy_cost: float | tf.Tensor  # float32 [], annealed.


class Hyperparameters(tf.Module):
  """Hyper-parameters as variables, for population based training (appendix F).

  Every update reads them, and nothing is compiled again for a new value. A run
  begins with its config's values. When it resumes it takes its checkpoint's,
  except for values that have changed in the config (`take_changes`).

  Attributes:
    learning_rate: float32 [], before annealing.
    epsilon: float32 [], inside of RMSProp's root.
    entropy_cost: float32 [], weight of the entropy bonus, before annealing.
    max_gradient_norm: float32 [], threshold of gradient clipping; None, without
      clipping, cannot change within a run.
  """

  def __init__(self, config: config_lib.Config):
    """Creates the variables; call it in the scope of the strategy."""
    super().__init__(name='hyperparameters')
    self.learning_rate = _variable(config.optimizer.learning_rate)
    self.epsilon = _variable(config.optimizer.epsilon)
    self.entropy_cost = _variable(config.impala.entropy_cost)
    self._entropy_annealed_to = config.impala.entropy_annealed_to
    # Computes what is left of annealed values, float32 []; the learner sets it.
    self.remaining_share: Callable[[], tf.Tensor] = lambda: tf.constant(1.)
    self.max_gradient_norm: tf.Variable | None = None
    if config.optimizer.max_gradient_norm is not None:
      self.max_gradient_norm = _variable(config.optimizer.max_gradient_norm)

  def present(self) -> 'Present':
    """Returns the hyper-parameters that the present update's loss reads."""
    end = self._entropy_annealed_to
    return Present(
        self.entropy_cost * (end + (1 - end) * self.remaining_share()))

  def row(self) -> dict[str, float]:
    """Returns all values but the learning rate, by name, for the log."""
    values = {'epsilon': self.epsilon,
              'entropy_cost': self.present().entropy_cost}
    if self.max_gradient_norm is not None:
      values['max_gradient_norm'] = self.max_gradient_norm
    return {name: float(value.numpy()) for name, value in values.items()}


class ConfiguredValues(tf.Module):
  """A record, kept in checkpoints, of the config's hyper-parameter values.

  It shows a resumed run which values its config has changed since then.
  """

  def __init__(self, hyperparameters: Hyperparameters):
    """Reads the config's values from new `hyperparameters`; records NaN."""
    super().__init__(name='configured')
    self._config_values = [float(v.numpy()) for v in hyperparameters.variables]
    self.values = _variable([float('nan')] * len(self._config_values))

  def take_changes(self, hyperparameters: Hyperparameters) -> None:
    """Applies the config values that changed since the checkpoint.

    A restored hyperparameter is assigned if its value in the config differs
    from the record. Then all values are recorded.
    """
    for variable, old, new in zip(hyperparameters.variables,
                                  self.values.numpy(), self._config_values):
      if old != np.float32(new):
        variable.assign(new)
    self.values.assign(self._config_values)


def _variable(value: float | list[float]) -> tf.Variable:
  return tf.Variable(value, trainable=False, dtype=tf.float32)
