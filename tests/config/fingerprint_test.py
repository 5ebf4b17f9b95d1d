"""Configs have one fingerprint exactly if their unrolls can be mixed."""

import pytest

from impala_tf import config as config_lib
from tests.fixtures import configs

CONFIG = config_lib.Config()


@pytest.mark.parametrize('section, values', [
    ('environment', {'level': 'catch'}), ('environment', {'kwargs': {'a': 1}}),
    ('atari', {'action_repeats': 2}),
    ('dmlab', {'height': 84}),
    ('vizdoom', {'game_variables': True}),
    ('environment', {'reward_scale': 2.}),
    ('environment', {'episode_metrics': 'won'}),
    ('agent', {'use_lstm': True}), ('learner', {'unroll_length': 19})])
def test_fingerprint_changes_with_the_meaning_of_unrolls(section, values):
  assert config_lib.data_fingerprint(CONFIG.replaced(section, **values)) != (
      config_lib.data_fingerprint(CONFIG))


@pytest.mark.parametrize('section, values', [
    ('experiment', {'seed': 9}), ('impala', {'discount': 0.9}),
    ('laser', {'threshold': 0.9}),
    ('optimizer', {'learning_rate': 1.}), ('actor', {'num_envs': 3}),
    ('learner', {'batch_size': 5}), ('replay', {'capacity_unrolls': 7}),
    ('agent', {'torso_gain': 2.}), ('actor', {'pinned': False}),
    ('learner', {'precision': 'auto'}),
    ('dmlab', {'level_cache_dir': '/here', 'dataset_path': '/there'}),
    ('dmlab', {'num_seeds': 9})])
def test_use_of_unrolls_does_not_matter(section, values):
  assert config_lib.data_fingerprint(CONFIG.replaced(section, **values)) == (
      config_lib.data_fingerprint(CONFIG))


def test_replays_that_were_saved_earlier_are_still_taken():
  # A new option that decides what an unroll means changes it on purpose.
  assert config_lib.data_fingerprint(CONFIG.replaced(
      'environment', level='catch', kwargs={'rows': 5},
      converted=False)) == 137160931488353434


def test_equal_configs_have_one_fingerprint_and_others_another():
  prints = [config_lib.full_fingerprint(config) for config in (
      CONFIG, config_lib.Config(), CONFIG.replaced('actor', pinned=False),
      configs.changed_everywhere())]
  assert prints[0] == prints[1] and len(set(prints)) == 3
