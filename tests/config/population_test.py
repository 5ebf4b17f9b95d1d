"""The population's options are the paper's, and what cannot work is refused."""

import pytest

from impala_tf import config as config_lib
from impala_tf.config import population as population_config


@pytest.mark.parametrize('fields, words', [
    ({'members': 'a'}, 'two or more different names'),
    ({'members': 'a,b,a'}, 'two or more different names'),
    ({'members': 'a,../b'}, 'two or more different names'),
    ({'adapted': 'learning_rate,decay'}, "names 'decay'"),
    ({'mutation_factor': 0.8}, 'at least 1')])
def test_what_cannot_work_is_refused(fields, words):
  with pytest.raises(config_lib.ConfigError, match=words):
    population_config.PopulationConfig(**fields)


def _config(**sections):
  return config_lib.Config(
      population=population_config.PopulationConfig(members='a,b',
                                                    **sections.pop(
          'population', {})), **sections)


def test_several_learners_cannot_be_a_member():
  with pytest.raises(config_lib.ConfigError, match='num_learners'):
    _config(learner=config_lib.LearnerConfig(num_learners=2))


def test_threshold_of_no_clipping_cannot_be_adapted():
  with pytest.raises(config_lib.ConfigError, match='max_gradient_norm'):
    _config(population={'adapted': 'max_gradient_norm'},
            optimizer=config_lib.OptimizerConfig(max_gradient_norm=None))
  _config(optimizer=config_lib.OptimizerConfig(max_gradient_norm=None))
