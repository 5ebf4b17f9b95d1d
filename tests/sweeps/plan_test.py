"""The runs of a sweep follow from its config, and compare like with like."""

import itertools
import math

import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.sweeps import plan as plan_lib

_RANGES = {
    'OptimizerConfig.learning_rate': ('log_uniform', 5e-6, 5e-3),
    'OptimizerConfig.epsilon': ('categorical', 1e-1, 1e-3, 1e-5, 1e-7),
    'ImpalaConfig.entropy_cost': ('log_uniform', 5e-5, 1e-2)}


def _config(**kwargs):
  return plan_lib.SweepConfig(**{
      'tasks': {'catch': 'a.gin', 'pong': 'b.gin'},
      'variants': {'x': {'AgentConfig.use_lstm': True}, 'y': {}},
      'ranges': _RANGES, 'num_settings': 5, 'num_seeds': 3,
      'fixed': {'LearnerConfig.batch_size': 4}, **kwargs})


def test_same_seed_gives_the_same_settings_and_another_others():
  first = plan_lib.settings(_config(seed=3))
  assert first == plan_lib.settings(_config(seed=3))
  assert first != plan_lib.settings(_config(seed=4))
  # On every machine and with every version.
  assert plan_lib.settings(_config(seed=1))['setting_01'] == {
      'ImpalaConfig.entropy_cost': 0.0001019,
      'OptimizerConfig.epsilon': 1e-07,
      'OptimizerConfig.learning_rate': 0.0009779}


def test_settings_do_not_depend_on_the_order_of_ranges_or_their_number():
  few = plan_lib.settings(_config())
  many = plan_lib.settings(_config(num_settings=50))
  assert list(many.items())[:5] == list(few.items())
  turned = dict(reversed(_RANGES.items()))
  assert plan_lib.settings(_config(ranges=turned)) == few


def test_log_uniform_is_uniform_in_its_logarithm():
  drawn = plan_lib.settings(_config(num_settings=2000)).values()
  for name in ('OptimizerConfig.learning_rate', 'ImpalaConfig.entropy_cost'):
    _, low, high = _RANGES[name]
    values = np.array([bindings[name] for bindings in drawn])
    assert low <= values.min() < 1.01 * low
    assert high >= values.max() > 0.99 * high
    shares = np.sort(np.log(values / low) / math.log(high / low))
    # Kolmogorov and Smirnov: beyond 1.63 / sqrt(n) once in a hundred.
    distance = np.abs(shares - (np.arange(2000) + 0.5) / 2000).max()
    assert distance < 1.63 / math.sqrt(2000)


def test_categorical_takes_each_choice_equally_often():
  drawn = plan_lib.settings(_config(num_settings=2000)).values()
  chosen = [bindings['OptimizerConfig.epsilon'] for bindings in drawn]
  # Standard deviation sqrt(2000 * 3 / 16) = 19.
  for choice in _RANGES['OptimizerConfig.epsilon'][1:]:
    assert abs(chosen.count(choice) - 500) < 60


def test_every_task_and_variant_has_the_same_settings_and_seeds():
  config = _config()
  found = plan_lib.runs(config)
  assert len(found) == 5 * 3 * 2 * 2
  settings = plan_lib.settings(config)

  def pairs(task, variant):
    return [(r.setting, r.seed) for r in found
            if (r.task, r.variant) == (task, variant)]

  for task, variant in itertools.product(config.tasks, config.variants):
    assert pairs(task, variant) == list(itertools.product(settings, (1, 2, 3)))
  for run in found:
    assert run.bindings == {
        'LearnerConfig.batch_size': 4, **settings[run.setting],
        **config.variants[run.variant], 'ExperimentConfig.seed': run.seed}
  # Stopped anywhere, no variant is ahead of another by more than one run.
  for end in range(len(found)):
    variants = [run.variant for run in found[:end]]
    assert abs(variants.count('x') - variants.count('y')) <= 1


def test_points_are_settings_as_they_are_given():
  points = {'lag_1': {'LearnerConfig.queue_capacity': 1},
            'lag_9': {'LearnerConfig.queue_capacity': 9}}
  config = _config(ranges={}, num_settings=1, points=points)
  assert plan_lib.settings(config) == points
  assert [r.name for r in plan_lib.runs(config)][-1] == 'pong/y/lag_9/seed_3'
  assert list(plan_lib.settings(_config(
      ranges={}, num_settings=1)).values()) == [{}]


@pytest.mark.parametrize('kwargs, words', [
    ({'tasks': {}}, 'SweepConfig.tasks is empty'),
    ({'tasks': ['a.gin']}, r"tasks must be a dict, but is \['a.gin'\]"),
    ({'tasks': {'a/b': 'a.gin'}}, "tasks has the name 'a/b'"),
    ({'tasks': {'a': 5}}, r"tasks\['a'\] must be the path .* but is 5"),
    ({'fixed': {'ExperimentConfig.seed': 5}}, 'set SweepConfig.num_seeds'),
    ({'fixed': {'config.ExperimentConfig.seed': 5}},  # It would have no effect.
     "has 'config.ExperimentConfig.seed'"),
    ({'ranges': {'A.b': 5}}, r"ranges\['A.b'\] must be \('log_uniform'"),
    ({'ranges': {'A.b': ('log_uniform', '1', 2)}}, "but is .*'1', 2"),
    ({'ranges': {'A.b': ('log_uniform', True, 2)}}, 'but is .*True, 2'),
    ({'ranges': {'A.b': ('categorical',)}}, r"but is \('categorical',\)"),
    ({'ranges': {'A.b': []}}, r'but is \[\]'),
    ({'ranges': {'A.b': ('log_uniform', 0, 2)}}, '0 < low < high'),
    ({'ranges': {}}, 'num_settings is 5, but there are no ranges'),
    ({'points': {'p': {}}}, 'both points and ranges'),
    ({'num_settings': 0}, 'number and at least 1, but is 0'),
    ({'num_seeds': 2.}, 'num_seeds must be a whole number .* is 2.0'),
    ({'seed': True}, 'seed must be a whole number .* is True'),
    ({'fixed': {'AgentConfig.use_lstm': True}},
     'use_lstm is bound in SweepConfig.fixed and in SweepConfig.variants'),
    ({'fixed': {'OptimizerConfig.epsilon': 1.}},
     'epsilon is bound in SweepConfig.fixed and in SweepConfig.ranges'),
    ({'shared_replay': ['x', 'z']},
     "names 'z', which is no variant; variants are x, y"),
    ({'shared_replay': 1},
     'must be True, False or names of variants, but is 1')])
def test_sweep_without_sense_is_refused_in_one_line(kwargs, words):
  with pytest.raises(config_lib.ConfigError, match=words):
    _config(**kwargs)


def test_differences_name_each_value_that_differs():
  assert plan_lib.differences(_config(), _config()) == []
  other = _config(num_seeds=4, tasks={'catch': 'a.gin', 'qbert': 'c.gin'},
                  ranges={**_RANGES, 'OptimizerConfig.epsilon':
                          ('categorical', 1.)})
  assert plan_lib.differences(_config(), other) == [
      "SweepConfig.tasks['pong'] ('b.gin', now nothing)",
      "SweepConfig.ranges['OptimizerConfig.epsilon'] (('categorical', 0.1, "
      "0.001, 1e-05, 1e-07), now ('categorical', 1.0))",
      'SweepConfig.num_seeds (3, now 4)',
      "SweepConfig.tasks['qbert'] (nothing, now 'c.gin')"]


def test_populations_have_the_draws_of_the_sweep_of_the_same_config():
  config = _config()
  members, runs = plan_lib.members(config), plan_lib.runs(config)
  names = 'setting_01,setting_02,setting_03,setting_04,setting_05'
  assert len(members) == len(runs) == 5 * 3 * 2 * 2
  for member, run in zip(members, runs):
    assert member[:4] == run[:4]
    assert member.bindings == {
        **run.bindings, 'OptimizerConfig.annealed': False,
        'PopulationConfig.members': names}
  # Members of a population lie side by side.
  by_population = {}
  for member in members:
    by_population.setdefault(member.population, []).append(member.name)
  assert len(by_population) == 3 * 2 * 2
  assert by_population['pong/x/seed_2'] == [
      f'pong/x/seed_2/{name}' for name in names.split(',')]
  # Unless their config says so, learning rates are not annealed.
  annealed, *_ = plan_lib.members(
      _config(fixed={'OptimizerConfig.annealed': True}))
  assert annealed.bindings['OptimizerConfig.annealed'] is True


def test_agents_that_share_a_replay_follow_one_another_with_own_seeds():
  config = _config(shared_replay=['x'])
  runs = plan_lib.runs(config)
  groups = plan_lib.groups(config, runs)
  names = [run.name for run in runs]
  assert len(set(names)) == len(names) == 2 * 2 * 5 * 3
  assert [(g.task, g.variant, g.seed) for g in groups] == [
      (task, 'x', seed) for seed in (1, 2, 3) for task in ('catch', 'pong')]
  members = plan_lib.members(config)
  assert [m[:4] for m in members] == [r[:4] for r in runs]
  for group in plan_lib.groups(config, members):
    # All of a population, and none of another.
    population, = {member.population for member in group.runs}
    assert list(group.runs) == [
        m for m in members if m.population == population]
  for group in groups:
    assert [run.setting for run in group.runs] == list(
        plan_lib.settings(config))
    first = names.index(group.runs[0].name)
    assert names[first:first + 5] == [run.name for run in group.runs]
  # Seeds differ within a task and variant, and agree between variants.
  seeds = {}
  for run in runs:
    seeds.setdefault((run.task, run.variant), []).append(
        run.bindings['ExperimentConfig.seed'])
  assert all(numbers == list(range(1, 16)) for numbers in seeds.values())
  assert not plan_lib.groups(_config(), runs)
  assert len(plan_lib.groups(_config(shared_replay=True), runs)) == 2 * 2 * 3
