"""Tests of groups of runs, made of configs as runs leave them."""

import pytest

from impala_tf import config as config_lib
from impala_tf.plots import groups
from impala_tf.runs import gin_config


def _make_run(path, level='catch', seed=1, **impala):
  config = config_lib.Config(
      experiment=config_lib.ExperimentConfig(seed=seed),
      environment=config_lib.EnvironmentConfig(level=level),
      impala=config_lib.ImpalaConfig(**impala))
  path.mkdir(parents=True)
  (path / 'config.gin').write_text(gin_config.dumps(config))
  return str(path)


@pytest.fixture(name='runs')
def _runs(tmp_path):
  """Makes two seeds of two settings, in directories of other names."""
  return [_make_run(tmp_path / name, seed=seed, entropy_cost=cost)
          for name, seed, cost in (('a/1', 1, 0.1), ('a/2', 1, 0.001),
                                   ('b/3', 2, 0.1), ('b/4', 2, 0.001))]


@pytest.mark.parametrize('way, wanted', [
    ('seed', {'entropy_cost = 0.1': ['a/1', 'b/3'],
              'entropy_cost = 0.001': ['a/2', 'b/4']}),
    ('ImpalaConfig.entropy_cost', {'entropy_cost = 0.001': ['a/2', 'b/4'],
                                   'entropy_cost = 0.1': ['a/1', 'b/3']}),
    ('ExperimentConfig.seed', {'seed = 1': ['a/1', 'a/2'],
                               'seed = 2': ['b/3', 'b/4']}),
    ('directory', {'a': ['a/1', 'a/2'], 'b': ['b/3', 'b/4']}),
    ('all', {'all': ['a/1', 'a/2', 'b/3', 'b/4']})])
def test_groups_have_their_runs_and_are_named_by_what_differs(
    runs, tmp_path, way, wanted):
  groups.check_way(way)
  found = groups.make(runs, way)
  assert {label: [r[len(str(tmp_path)) + 1:] for r in run_dirs]
          for label, run_dirs in found.items()} == wanted
  assert list(found) == list(wanted)


def test_seeds_of_one_setting_are_named_by_their_level(runs, tmp_path):
  assert list(groups.make(runs[::2], 'seed')) == ['catch']
  other = _make_run(tmp_path / 'c', level='atari/pong', entropy_cost=0.1)
  assert list(groups.make([runs[0], other], 'seed')) == ['catch', 'atari/pong']
  levels = ['catch,catch/mirrored', 'catch,tmaze']
  several = [_make_run(tmp_path / level[-3:], level) for level in levels]
  for way in 'seed', groups.LEVEL:
    assert list(groups.make(several, way)) == levels


def test_evaluation_is_grouped_by_the_config_of_its_run(runs):
  for path in 'evaluation', 'metrics.jsonl', 'evaluation/metrics.jsonl':
    values = groups.values_of(f'{runs[1]}/{path}')
    assert values['ImpalaConfig.entropy_cost'] == 0.001
    found = groups.make([f'{run}/{path}' for run in runs], 'directory')
    assert [len(members) for members in found.values()] == [2, 2]
  assert values.keys() == gin_config.values(config_lib.Config()).keys()
  assert values[groups.LEVEL] == 'catch'


def test_way_that_there_is_not_and_run_without_config_are_refused(tmp_path):
  with pytest.raises(config_lib.UserError,
                     match='did you mean ImpalaConfig.entropy_cost'):
    groups.check_way('ImpalaConfig.entropycost')
  with pytest.raises(config_lib.UserError, match='has no config.gin'):
    groups.make([str(tmp_path)], 'seed')
  with pytest.raises(config_lib.UserError, match='grouped with evaluations'):
    groups.make([str(tmp_path), f'{tmp_path}/evaluation/metrics.jsonl'], 'all')
  assert groups.values_of(str(tmp_path)) == {}
