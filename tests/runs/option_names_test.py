"""Tests that a name that does not exist leads to the option that was meant."""

import dataclasses

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import option_names


def test_every_option_of_the_config_is_known():
  for section in dataclasses.fields(config_lib.Config):
    for option in dataclasses.fields(section.type):
      assert option_names.problem(section.type.__name__, option.name) is None
      assert option_names.is_option(option.name)
  assert option_names.problem('SweepConfig', 'num_seeds') is None
  assert not option_names.is_option('LearnerConfig')


@pytest.mark.parametrize('section, option, line', [
    ('LearnerConfig', 'batchsize',
     'LearnerConfig has no batchsize; did you mean LearnerConfig.batch_size?'),
    # It exists, but elsewhere.
    ('LearnerConfig', 'num_envs',
     'LearnerConfig has no num_envs; did you mean ActorConfig.num_envs?'),
    # The nearest section's, though others have it too.
    ('AtrConfig', 'height',
     'there is no section AtrConfig; did you mean AtariConfig.height?'),
    ('learner', 'BATCH_SIZE',
     'there is no section learner; did you mean LearnerConfig.batch_size?'),
    ('', 'learning_rte',
     'there is no learning_rte; did you mean OptimizerConfig.learning_rate?'),
    ('', 'height', 'height needs its section; write AtariConfig.height or '
     'DmlabConfig.height'),
    ('EnvironmentConfig', 'xyz',
     'EnvironmentConfig has no xyz; it has level, kwargs, converted, '
     'reward_scale, episode_metrics'),
])
def test_line_by_hand(section, option, line):
  assert option_names.problem(section, option) == line


def test_name_that_is_near_nothing_is_answered_by_all_sections():
  line = option_names.problem('Qqqq', 'xyz')
  assert line.startswith('there is no section Qqqq; sections are Experiment')
  assert 'ReplayConfig' in line


@pytest.mark.parametrize('word, hint', [
    ('true', 'did you mean True?'), ('FALSE', 'did you mean False?'),
    ('null', 'did you mean None?'), ('deep', "in quotes: 'deep'")])
def test_word_that_is_no_value(word, hint):
  line = option_names.value_problem(word)
  assert line.startswith(f'{word} is no value; ') and line.endswith(hint)
