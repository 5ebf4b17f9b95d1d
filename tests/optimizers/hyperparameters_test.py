"""Hyper-parameters begin with the config's values and may change."""

import numpy as np

from impala_tf import config as config_lib
from impala_tf.optimizers import hyperparameters


def _make(**options):
  return hyperparameters.Hyperparameters(config_lib.Config(
      impala=config_lib.ImpalaConfig(entropy_cost=0.25),
      optimizer=config_lib.OptimizerConfig(
          learning_rate=0.5, epsilon=0.125, **options)))


def test_row_has_the_configs_values_and_then_the_present_ones():
  made = _make(max_gradient_norm=2.)
  assert made.learning_rate.numpy() == 0.5 and not made.trainable_variables
  assert made.row() == {
      'epsilon': 0.125, 'entropy_cost': 0.25, 'max_gradient_norm': 2.}
  made.epsilon.assign(4.)
  made.max_gradient_norm.assign(8.)
  assert made.row() == {
      'epsilon': 4., 'entropy_cost': 0.25, 'max_gradient_norm': 8.}


def test_gradients_that_are_not_clipped_have_no_threshold():
  made = _make(max_gradient_norm=None)
  assert made.max_gradient_norm is None
  assert made.row().keys() == {'epsilon', 'entropy_cost'}


def _restored(config_rate, recorded):
  """Makes values of a config, and then restores assigned and recorded ones."""
  made = hyperparameters.Hyperparameters(config_lib.Config(
      optimizer=config_lib.OptimizerConfig(learning_rate=config_rate)))
  configured = hyperparameters.ConfiguredValues(made)
  made.learning_rate.assign(0.125)  # As a population might have.
  made.epsilon.assign(0.0625)
  if recorded is not None:
    configured.values.assign(recorded)
  configured.take_changes(made)
  return made, configured


def test_assigned_values_go_on_if_the_config_is_the_same():
  made, configured = _restored(0.5, None)  # From before there was a record.
  assert made.learning_rate.numpy() == 0.5
  assert made.epsilon.numpy() == np.float32(0.01)
  made, again = _restored(0.5, configured.values)
  assert made.learning_rate.numpy() == 0.125
  assert made.epsilon.numpy() == 0.0625
  np.testing.assert_array_equal(again.values, configured.values)


def test_changed_value_of_the_config_wins_once():
  _, configured = _restored(0.5, None)
  made, changed = _restored(0.25, configured.values)
  assert made.learning_rate.numpy() == 0.25
  assert made.epsilon.numpy() == 0.0625  # Its config is as it was.
  made, _ = _restored(0.25, changed.values)
  assert made.learning_rate.numpy() == 0.125
