"""Values of a wrong type or out of range are refused by name."""

import pytest

from impala_tf import config


@pytest.mark.parametrize('make, words', [
    (lambda: config.LearnerConfig(batch_size=32.0),
     ('LearnerConfig.batch_size', 'int', '32.0')),
    (lambda: config.LearnerConfig(batch_size=True),
     ('LearnerConfig.batch_size', 'int', 'True')),
    (lambda: config.AtariConfig(full_action_set=1),
     ('AtariConfig.full_action_set', 'bool', '1')),
    (lambda: config.LearnerConfig(batch_size=0),
     ('LearnerConfig.batch_size', 'at least 1', '0')),
    (lambda: config.ImpalaConfig(discount=1.),
     ('ImpalaConfig.discount', 'below 1', '1.0')),
    (lambda: config.OptimizerConfig(epsilon=0.),
     ('OptimizerConfig.epsilon', 'above 0', '0.0')),
    (lambda: config.OptimizerConfig(learning_rate=float('nan')),
     ('OptimizerConfig.learning_rate', 'must be finite', 'nan')),
    (lambda: config.ExperimentConfig(stop_at_return=float('inf')),
     ('ExperimentConfig.stop_at_return', 'must be finite', 'inf')),
    (lambda: config.LearnerConfig(xla='of'),
     ('LearnerConfig.xla', 'auto, on, off', "'of'")),
    (lambda: config.EnvironmentConfig(kwargs={'walls': {1: 2}}),
     ("EnvironmentConfig.kwargs['walls']", 'strings as its keys', '1')),
    (lambda: config.EnvironmentConfig(kwargs={'sizes': [7, print]}),
     ("EnvironmentConfig.kwargs['sizes'][1]", 'must be data', 'builtin_fun')),
    (lambda: config.EnvironmentConfig(kwargs={'size': float('inf')}),
     ("EnvironmentConfig.kwargs['size']", 'must be finite', 'inf')),
])
def test_a_wrong_value_is_refused_by_name(make, words):
  with pytest.raises(config.ConfigError) as raised:
    make()
  assert all(word in str(raised.value) for word in words), raised.value


def test_an_int_serves_as_a_float_and_becomes_one():
  discount = config.ImpalaConfig(discount=0).discount
  assert discount == 0. and isinstance(discount, float)


def test_equal_data_has_equal_text_and_hash():
  one = config.EnvironmentConfig(kwargs={'b': (1, (2.5, None)), 'a': True})
  other = config.EnvironmentConfig(kwargs={'a': True, 'b': [1, [2.5, None]]})
  assert one == other and hash(one) == hash(other) and repr(one) == repr(other)
  assert one != config.EnvironmentConfig(kwargs={'a': True})


def test_data_is_a_copy():
  sizes = [7]
  section = config.EnvironmentConfig(kwargs={'sizes': sizes})
  sizes.append(8)
  assert section.kwargs == {'sizes': [7]}
