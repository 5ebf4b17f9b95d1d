"""Values of a wrong type or out of range are refused by name."""

import dataclasses

import pytest

from impala_tf import config


@pytest.mark.parametrize('make, words', [
    (lambda: config.LearnerConfig(batch_size=32.0),
     ('LearnerConfig.batch_size', 'int', '32.0')),
    (lambda: config.LearnerConfig(batch_size=True),
     ('LearnerConfig.batch_size', 'int', 'True')),
    (lambda: config.LearnerConfig(batch_size=None),
     ('LearnerConfig.batch_size', 'int', 'None')),
    (lambda: config.AtariConfig(full_action_set=1),
     ('AtariConfig.full_action_set', 'bool', '1')),
    (lambda: config.LearnerConfig(batch_size=0),
     ('LearnerConfig.batch_size', 'at least 1', '0')),
    (lambda: config.ImpalaConfig(discount=1.),
     ('ImpalaConfig.discount', 'below 1', '1.0')),
    (lambda: config.ImpalaConfig(lambda_=1.5),
     ('ImpalaConfig.lambda_', 'at most 1', '1.5')),
    (lambda: config.OptimizerConfig(epsilon=0.),
     ('OptimizerConfig.epsilon', 'above 0', '0.0')),
    (lambda: config.OptimizerConfig(learning_rate=float('nan')),
     ('OptimizerConfig.learning_rate', 'above 0', 'nan')),
    (lambda: config.AgentConfig(torso='shalow'),
     ('AgentConfig.torso', 'shallow, deep, mlp', 'shalow')),
])
def test_a_wrong_value_is_refused_by_name(make, words):
  with pytest.raises(config.ConfigError) as raised:
    make()
  message = str(raised.value)
  assert '\n' not in message
  for word in words:
    assert word in message


def test_an_int_serves_as_a_float_and_becomes_one():
  discount = config.ImpalaConfig(discount=0).discount
  assert discount == 0. and isinstance(discount, float)


def test_none_means_no_limit_only_where_it_is_optional():
  assert config.ImpalaConfig(clip_rho_threshold=None).clip_rho_threshold is None
  assert config.ActorConfig(num_actors=None).num_actors is None


def test_sections_cannot_be_changed():
  with pytest.raises(dataclasses.FrozenInstanceError):
    config.Config().learner.batch_size = 1
