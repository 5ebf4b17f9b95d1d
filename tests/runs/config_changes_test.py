"""Which values of a run's config may change, and which may not."""

import dataclasses

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import config_changes
from tests.fixtures import configs

CONFIG = config_lib.Config(
    optimizer=config_lib.OptimizerConfig(max_gradient_norm=40.))


def _with(config, name, value):
  """Returns the config with one value, 'section.option', changed."""
  section, _, option = name.partition('.')
  return dataclasses.replace(config, **{section: dataclasses.replace(
      getattr(config, section), **{option: value})})


@pytest.mark.parametrize('name, value', [
    ('optimizer.learning_rate', 1e-4), ('optimizer.max_gradient_norm', 1.),
    ('impala.entropy_cost', 0.1), ('experiment.total_frames', 10),
    ('actor.num_actors', 3), ('actor.num_envs', 7),
    ('learner.batch_size', 16), ('learner.unroll_length', 10),
    ('replay.replay_fraction', 0.5), ('dmlab.dataset_path', '/a')])
def test_how_it_is_learned_and_run_may_change(name, value):
  config_changes.check(CONFIG, _with(CONFIG, name, value))


def test_nothing_of_what_is_played_and_of_the_network_may_change():
  """Whatever options there are: new ones are refused until someone decides."""
  for section in ('environment', 'atari', 'dmlab', 'vizdoom', 'agent'):
    values = getattr(CONFIG, section)
    for field in dataclasses.fields(values):
      name = f'{type(values).__name__}.{field.name}'
      if name in ('DmlabConfig.dataset_path', 'DmlabConfig.level_cache_dir'):
        continue
      value = configs.other_than_default(field, getattr(values, field.name))
      with pytest.raises(config_lib.ConfigError, match=(
          f'these cannot change within a run: {name} ')) as raised:
        config_changes.check(
            CONFIG, _with(CONFIG, f'{section}.{field.name}', value))
      assert '\n' not in str(raised.value)


@pytest.mark.parametrize('name, value, words', [
    ('experiment.algorithm', 'impala_popart', 'ExperimentConfig.algorithm'),
    ('experiment.seed', 5, r'ExperimentConfig.seed \(1, now 5\)'),
    ('learner.num_learners', 2, 'LearnerConfig.num_learners'),
    ('optimizer.bias_correction', True, 'OptimizerConfig.bias_correction'),
    ('optimizer.max_gradient_norm', None, 'max_gradient_norm to or from None')])
def test_what_means_something_else_may_not_change(name, value, words):
  changed = _with(CONFIG, name, value)
  for old, new in (CONFIG, changed), (changed, CONFIG):
    if old is changed and 'seed' in name:
      words = r'ExperimentConfig.seed \(5, now 1\)'
    with pytest.raises(config_lib.ConfigError, match=words):
      config_changes.check(old, new)


def test_replay_on_disk_keeps_its_form():
  replaying = _with(CONFIG, 'replay.replay_fraction', 0.5)
  kept = _with(replaying, 'replay.survives_resume', True)
  config_changes.check(replaying, kept)
  for name, value in (('learner.unroll_length', 10),
                      ('replay.capacity_unrolls', 50),
                      ('replay.replay_fraction', 0.25),
                      ('replay.sampling', 'episodes'),
                      ('replay.episode_unrolls', 8),
                      ('replay.priority_exponent', 0.5),
                      ('replay.survives_resume', False)):
    config_changes.check(replaying, _with(replaying, name, value))
    with pytest.raises(config_lib.ConfigError, match=name.partition('.')[2]):
      config_changes.check(kept, _with(kept, name, value))
  config_changes.check(kept, _with(kept, 'learner.batch_size', 16))


def test_all_refused_changes_are_named():
  changed = _with(_with(CONFIG, 'agent.use_lstm', True),
                  'environment.level', 'catch')
  with pytest.raises(config_lib.ConfigError) as raised:
    config_changes.check(CONFIG, _with(changed, 'impala.entropy_cost', 1.))
  assert str(raised.value) == (
      "these cannot change within a run: EnvironmentConfig.level ('atari/pong',"
      " now 'catch'), AgentConfig.use_lstm (False, now True); leave them as "
      'they are, or begin another run with --init_from')
