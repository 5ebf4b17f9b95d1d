"""Runs of a sweep that share a replay: commands, flags and refusals."""

import pytest

from impala_tf import config as config_lib
from impala_tf.cli.roles import flags
from impala_tf.runs import gin_config
from impala_tf.runs import sharing
from impala_tf.runs import sweep_directory
from impala_tf.sweeps import plan as plan_lib


def _config(**kwargs):
  return plan_lib.SweepConfig(**{
      'tasks': {'catch': 'configs/catch.gin'},
      'variants': {'own': {}, 'shared': {}}, 'shared_replay': ['shared'],
      'points': {name: {'OptimizerConfig.learning_rate': rate}
                 for name, rate in (('a', 1e-3), ('b', 2e-3), ('c', 3e-3))},
      'fixed': {'ReplayConfig.replay_fraction': 0.5,
                'ReplayConfig.capacity_unrolls': 77}, **kwargs})


def _groups(config):
  return plan_lib.groups(config, plan_lib.runs(config))


def _plan(tmp_path, config, is_to_do=lambda run: True):
  tasks = {'catch': gin_config.load('configs/catch.gin')}
  with sweep_directory.claim(
      str(tmp_path / 'sweep'), config, tasks) as directory:
    return sharing.plan(
        _groups(config), list(filter(is_to_do, plan_lib.runs(config))),
        directory, 'me')


def test_replay_gets_the_agents_config_and_agents_its_address(tmp_path):
  one, = _plan(tmp_path, _config())
  assert one.name == 'catch/shared/replay_of_seed_1'
  assert list(one.flags) == [
      f'catch/shared/{name}/seed_1' for name in ('a', 'b', 'c')]
  module, verb, *arguments = one.command
  assert (module, verb) == ('impala_tf', 'role')
  args = flags.make_parser('').parse_args(arguments)
  flags.check(args)
  assert args.role == 'replay' and args.supervised and args.num_agents == 3
  assert flags.absent_agents(args) == [] and args.run_dir is None
  host, port = flags.parse_address(args.address)
  assert host == 'me'
  config = gin_config.load(args.config, args.gin_binding)
  assert config.replay.capacity_unrolls == 77
  assert [one.flags[name] for name in one.flags] == [
      [f'--replay_address=me:{port}', f'--agent={i}'] for i in range(3)]


def test_agents_that_have_ended_are_not_expected_and_keep_their_numbers(
    tmp_path):
  config = _config(fixed={'ReplayConfig.replay_fraction': 0.5,
                          'ReplayConfig.survives_resume': True}, num_seeds=2)
  first, second = _plan(
      tmp_path, config, lambda run: run.seed == 2 or run.setting == 'b')
  assert list(first.flags) == ['catch/shared/b/seed_1']
  assert first.flags['catch/shared/b/seed_1'][1] == '--agent=1'
  assert '--absent=0,2' in first.command
  assert (f'--run_dir={tmp_path}/sweep/replays/catch/shared/replay_of_seed_1'
          in first.command)
  assert len(second.flags) == 3
  assert not _plan(tmp_path, config, lambda run: run.variant == 'own')


@pytest.mark.parametrize('fields, words', [
    ({'fixed': {}}, "variant 'shared' has runs without replay"),
    ({'points': {'a': {}, 'b': {'ReplayConfig.sampling': 'episodes'}}},
     "sampling is 'episodes', but a replay that agents share is sampled "),
    ({'points': {'a': {}, 'b': {'LearnerConfig.unroll_length': 5}}},
     'they need the same level'),
    ({'points': {'a': {}, 'b': {'ReplayConfig.capacity_unrolls': 5}},
      'fixed': {'ReplayConfig.replay_fraction': 0.5}},
     'they need the same level')])
def test_agents_that_cannot_share_are_refused(fields, words):
  sharing.check(_config(), _groups(_config()))
  config = _config(**fields)
  with pytest.raises(config_lib.ConfigError, match=words):
    sharing.check(config, _groups(config))
