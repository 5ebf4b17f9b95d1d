"""Mean squares and momenta that workers share begin as the config says."""

import pytest

from impala_tf import config as config_lib
from impala_tf.roles import shared_parameters


@pytest.mark.parametrize('optimizer, start, expected', [
    ('shared_rmsprop', 0., [0.]), ('shared_rmsprop', 1., [1.]),
    ('rmsprop', 0.5, [0.5, 0.5]),
    ('momentum_sgd', 1., [0., 0.])])  # Momenta begin at 0.
def test_mean_squares_begin_where_the_config_says(
    tmp_path, optimizer, start, expected):
  config = config_lib.Config(
      experiment=config_lib.ExperimentConfig(algorithm='a3c'),
      environment=config_lib.EnvironmentConfig(level='catch'),
      agent=config_lib.AgentConfig(torso='mlp', hidden_size=4),
      impala=config_lib.ImpalaConfig(correction='none'),
      asynchronous=config_lib.AsyncConfig(
          num_workers=2, optimizer=optimizer, initial_mean_square=start))
  slots = shared_parameters.Learner(config, str(tmp_path)).store.slots
  assert len(slots) == len(expected)
  for slot, value in zip(slots, expected):
    assert (slot == value).all()
