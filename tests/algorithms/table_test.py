"""The table of algorithms: the modules of its rows, and their checks."""

import pytest

import impala_tf
from impala_tf import config as config_lib
from impala_tf.algorithms import algorithm
from impala_tf.algorithms import table


def _config(name, popart_step_size=None, correction='vtrace',
            in_process=False, entropy_annealed_to=1., clip_rho_threshold=1.,
            **sections):
  return config_lib.Config(
      experiment=config_lib.ExperimentConfig(
          algorithm=name, in_process=in_process),
      impala=config_lib.ImpalaConfig(
          popart_step_size=popart_step_size, correction=correction,
          entropy_annealed_to=entropy_annealed_to,
          clip_rho_threshold=clip_rho_threshold),
      **sections)


_CONFIGS = {'impala': _config('impala'),
            'impala_popart': _config('impala_popart', 3e-4),
            'laser': _config('laser'),
            'a3c': _config('a3c', correction='none'),
            'a3c_continuous': _config('a3c_continuous', correction='none'),
            'one_step_q': _config('one_step_q'),
            'one_step_sarsa': _config('one_step_sarsa'),
            'n_step_q': _config('n_step_q')}
_VALUE_METHODS = ('one_step_q', 'one_step_sarsa', 'n_step_q')


@pytest.mark.parametrize('name', table.ROWS)
def test_row_is_an_algorithm_and_the_architecture_that_it_learns_in(name):
  row = table.get(_CONFIGS[name])
  assert isinstance(row, algorithm.Algorithm)
  assert row.needs_target_agent == (name in _VALUE_METHODS)
  shares = name.startswith('a3c') or name in _VALUE_METHODS
  assert table.architecture(_CONFIGS[name]) == (
      'shared_parameters' if shares else 'learner_with_actors')


@pytest.mark.parametrize('name', ['a3c', 'n_step_q'])
@pytest.mark.parametrize('option, sections', [
    ('ReplayConfig.replay_fraction',
     {'replay': config_lib.ReplayConfig(replay_fraction=.5)}),
    ('ImpalaConfig.popart_step_size', {'popart_step_size': .1}),
    ('ImpalaConfig.entropy_annealed_to', {'entropy_annealed_to': 0.}),
    *((f'OptimizerConfig.{name}',
       {'optimizer': config_lib.OptimizerConfig(**{name: value})})
      for name, value in (('annealed_share', 0.5), ('momentum', 0.5),
                          ('bias_correction', True))),
    ('ActorConfig.synchronisation',  # There would be nobody who plays.
     {'actor': config_lib.ActorConfig(synchronisation='step')}),
    ('ActorConfig.controlled_lag_updates',
     {'actor': config_lib.ActorConfig(num_envs=4, controlled_lag_updates=1),
      'in_process': True}),
    ('LearnerConfig.precision',
     {'learner': config_lib.LearnerConfig(precision='mixed_bfloat16')}),
    ('EnvironmentConfig.episode_metrics',
     {'environment': config_lib.EnvironmentConfig(episode_metrics='won')}),
    ('EnvironmentConfig.level',
     {'environment': config_lib.EnvironmentConfig(level='tmaze/1,tmaze/2')}),
    ('PopulationConfig.members',
     {'population': config_lib.PopulationConfig(members='a,b')})])
def test_workers_that_share_parameters_refuse_options_of_a_learner(
    name, option, sections):
  with pytest.raises(config_lib.ConfigError, match=f'{option} (is|must)'):
    table.check(_config(name, correction='none', **sections))


@pytest.mark.parametrize('config, words', [
    (_config('a3c'), "set it to 'none'"),
    (_config('a3c_continuous'), "set it to 'none'"),
    (_config('n_step_q', asynchronous=config_lib.AsyncConfig(
        share_memory=False)), 'a target network in memor'),
    (_config('a3c', correction='none', in_process=True,
             asynchronous=config_lib.AsyncConfig(share_memory=False)),
     'nobody sends gradients'),
    (_config('impala_popart'), 'needs ImpalaConfig.popart_step_size'),
    (_config('impala', 0.01), "set that to 'impala_popart'"),
    (_config('laser', correction='none'), "set it to 'vtrace'"),
    (_config('laser', clip_rho_threshold=None),
     'clip_rho_threshold is None; set it above'),
    (_config('laser', clip_rho_threshold=0.),
     'clip_rho_threshold is 0.0; set it above')])
def test_row_refuses_options_that_do_not_fit(config, words):
  with pytest.raises(config_lib.ConfigError, match=words):
    table.check(config)


def test_unknown_name_is_refused():
  with pytest.raises(config_lib.ConfigError, match=(
      "algorithm must be one of impala, .* but is 'impalla'")):
    table.get(_config('impalla'))


@pytest.mark.usefixtures('modules_forgotten')
def test_algorithm_of_ones_own_is_registered_with_its_check():
  mine = algorithm.Algorithm(make_agent=None, loss=None)

  def refuse(config):
    raise config_lib.ConfigError('not so')

  impala_tf.register_algorithm('mine', mine)
  impala_tf.register_algorithm('picky', mine, refuse)
  assert table.get(_config('mine', 0.5)) is mine
  table.check(_config('mine', 0.5))  # It checks configs as it likes.
  with pytest.raises(config_lib.ConfigError, match='not so'):
    table.check(_config('picky'))
  for name in ('impala', 'mine'):
    with pytest.raises(config_lib.ConfigError, match=f"'{name}' already"):
      table.register(name, mine)
  for other in refuse, mine._replace(needs_target_agent=True):
    with pytest.raises(config_lib.ConfigError, match='needs nothing else, but'):
      table.register('other', other)
