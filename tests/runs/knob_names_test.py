"""Tests that a name that does not exist leads to the knob that was meant."""

import dataclasses

import pytest

from impala_tf import config as config_lib
from launch.run import knob_names


def test_every_knob_of_the_config_is_known():
  for section in dataclasses.fields(config_lib.Config):
    for knob in dataclasses.fields(section.type):
      assert knob_names.problem(section.type.__name__, knob.name) is None
      assert knob_names.is_knob(knob.name)
  assert knob_names.problem('SweepConfig', 'num_seeds') is None
  assert not knob_names.is_knob('LearnerConfig')


@pytest.mark.parametrize('section, knob, line', [
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
     'EnvironmentConfig has no xyz; it has level, kwargs'),
])
def test_line_by_hand(section, knob, line):
  assert knob_names.problem(section, knob) == line


def test_name_that_is_near_nothing_is_answered_by_all_sections():
  line = knob_names.problem('Qqqq', 'xyz')
  assert line.startswith('there is no section Qqqq; sections are Experiment')
  assert 'ReplayConfig' in line


@pytest.mark.parametrize('word, hint', [
    ('true', 'did you mean True?'), ('FALSE', 'did you mean False?'),
    ('null', 'did you mean None?'), ('deep', "in quotes: 'deep'")])
def test_word_that_is_no_value(word, hint):
  line = knob_names.value_problem(word)
  assert line.startswith(f'{word} is no value; ') and line.endswith(hint)
