"""Environments are made as each domain's section of the config says."""

import sys

import pytest

from impala_tf import config as config_lib
from impala_tf.envs import catch
from impala_tf.envs import configured
from impala_tf.envs import multi_level

_VIZDOOM = (('vizdoom/basic', (120, 160, 3)),)
if sys.version_info < (3, 10):
  _VIZDOOM = ()  # It has no package.


def test_environment_is_played_as_its_domains_section_says(fake_deepmind_lab):
  del fake_deepmind_lab  # Only to be there.
  for level, shape in (('atari/pong', (40, 44, 4)),
                       ('dmlab30/rooms_watermaze', (48, 52, 3)),
                       *_VIZDOOM):
    config = config_lib.Config(
        environment=config_lib.EnvironmentConfig(level=level),
        atari=config_lib.AtariConfig(height=40, width=44, action_repeats=2),
        dmlab=config_lib.DmlabConfig(height=48, width=52, action_repeats=2),
        vizdoom=config_lib.VizdoomConfig(subsample=1, action_repeats=2))
    environment = configured.make_environment(config, 1, 0, training=True)
    assert environment.observation_spec().shape == shape
    assert environment.frames_per_step == 2
    environment.close()


def test_level_can_be_made_by_its_name_and_for_other_slots():
  environment = configured.make_environment('catch', num_envs=2)
  assert type(environment) is catch.CatchEnvironment
  assert environment.reset().observation.shape == (2, 10, 5)
  assert environment.level_index.tolist() == [0, 0]
  environment.close()
  both = configured.make_environment('tmaze/1,tmaze/2', first_slot=1)
  assert type(both) is multi_level.MultiLevelEnvironment
  assert both.level_index.tolist() == [1]
  with pytest.raises(config_lib.ConfigError, match='did you mean'):
    configured.make_environment('atari/pnog')
