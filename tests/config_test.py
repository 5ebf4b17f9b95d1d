"""Wrong values are refused in one line that names the knob and its limits."""

import dataclasses

import pytest

from impala_tf import config


@pytest.mark.parametrize('make, words', [
    (lambda: config.LearnerConfig(batch_size=32.0),
     ('LearnerConfig.batch_size', 'int', '32.0')),
    (lambda: config.LearnerConfig(batch_size=True),
     ('LearnerConfig.batch_size', 'int', 'True')),
    (lambda: config.LearnerConfig(batch_size=None),
     ('LearnerConfig.batch_size', 'int', 'None')),
    (lambda: config.AtariConfig(full_action_set=1),
     ('AtariConfig.full_action_set', 'bool', '1')),
    (lambda: config.LearnerConfig(batch_size=0),
     ('LearnerConfig.batch_size', 'at least 1', '0')),
    (lambda: config.ImpalaConfig(discount=1.),
     ('ImpalaConfig.discount', 'below 1', '1.0')),
    (lambda: config.ImpalaConfig(lambda_=1.5),
     ('ImpalaConfig.lambda_', 'at most 1', '1.5')),
    (lambda: config.OptimizerConfig(epsilon=0.),
     ('OptimizerConfig.epsilon', 'above 0', '0.0')),
    (lambda: config.OptimizerConfig(learning_rate=float('nan')),
     ('OptimizerConfig.learning_rate', 'above 0', 'nan')),
    (lambda: config.AgentConfig(torso='shalow'),
     ('AgentConfig.torso', 'shallow, deep, mlp', 'shalow')),
])
def test_a_wrong_value_is_refused_by_name(make, words):
  with pytest.raises(config.ConfigError) as raised:
    make()
  message = str(raised.value)
  assert '\n' not in message
  for word in words:
    assert word in message


def _of(**sections):
  return lambda: config.Config(**sections)


_LEARNER = config.LearnerConfig(batch_size=32)
_IN_PROCESS = config.ExperimentConfig(in_process=True)


@pytest.mark.parametrize('make, words', [
    (lambda: config.ReplayConfig(replay_fraction=1),
     ('ReplayConfig.replay_fraction', 'below 1', '1.0')),
    (_of(learner=_LEARNER, replay=config.ReplayConfig(replay_fraction=.3)),
     ('ReplayConfig.replay_fraction is 0.3', 'multiple of 1/32')),
    (_of(learner=_LEARNER, replay=config.ReplayConfig(replay_fraction=1-1e-9)),
     ('ReplayConfig.replay_fraction', 'multiple of 1/32')),
    (lambda: config.ActorConfig(controlled_lag_updates=-1),
     ('ActorConfig.controlled_lag_updates', 'at least 0', '-1')),
    (_of(actor=config.ActorConfig(controlled_lag_updates=1, num_envs=4)),
     ('ActorConfig.controlled_lag_updates', 'in_process = True')),
    (_of(actor=config.ActorConfig(controlled_lag_updates=1, num_envs=12),
         experiment=_IN_PROCESS, learner=_LEARNER),
     ('ActorConfig.num_envs', 'divide the 32 new unrolls', '12')),
    (_of(actor=config.ActorConfig(controlled_lag_updates=1, num_envs=32),
         experiment=_IN_PROCESS, learner=_LEARNER,
         replay=config.ReplayConfig(replay_fraction=.5)),
     ('ActorConfig.num_envs', 'divide the 16 new unrolls', '32')),
    (_of(actor=config.ActorConfig(controlled_lag_updates=1),
         experiment=_IN_PROCESS),
     ('ActorConfig.num_envs', 'None')),
    (_of(actor=config.ActorConfig(controlled_lag_updates=1, num_envs=4,
                                  fetch_interval_unrolls=2),
         experiment=_IN_PROCESS),
     ('ActorConfig.fetch_interval_unrolls must be 1', 'controlled_lag')),
    (_of(actor=config.ActorConfig(env_processes=2), experiment=_IN_PROCESS),
     ('ActorConfig.env_processes', 'in_process', 'leave one of them out')),
    (_of(learner=config.LearnerConfig(num_learners=2), experiment=_IN_PROCESS),
     ('LearnerConfig.num_learners', 'in_process', 'leave one of them out')),
    (_of(learner=config.LearnerConfig(num_learners=2),
         replay=config.ReplayConfig(replay_fraction=.5, survives_resume=True)),
     ('ReplayConfig.survives_resume', 'LearnerConfig.num_learners = 1')),
])
def test_values_that_do_not_go_together_are_refused(make, words):
  test_a_wrong_value_is_refused_by_name(make, words)


@pytest.mark.parametrize('batch_size, fraction, num_replayed', [
    (32, 0., 0), (32, .5, 16), (30, .1, 3), (12, 1 / 3, 4), (2, .5, 1)])
def test_share_of_the_replay_is_exact(batch_size, fraction, num_replayed):
  made = config.Config(
      learner=config.LearnerConfig(batch_size=batch_size),
      replay=config.ReplayConfig(replay_fraction=fraction))
  assert made.num_replayed == num_replayed
  assert made.num_fresh == batch_size - num_replayed


def test_an_int_serves_as_a_float_and_becomes_one():
  discount = config.ImpalaConfig(discount=0).discount
  assert discount == 0. and isinstance(discount, float)


def test_none_means_no_limit_only_where_it_is_optional():
  assert config.ImpalaConfig(clip_rho_threshold=None).clip_rho_threshold is None
  assert config.ActorConfig(num_actors=None).num_actors is None


def test_sections_cannot_be_changed():
  with pytest.raises(dataclasses.FrozenInstanceError):
    config.Config().learner.batch_size = 1
