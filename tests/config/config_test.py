"""Values that do not go together are refused by the names of their options."""

import json

import pytest

from impala_tf import config
from tests.fixtures import configs


def _of(**sections):
  return lambda: config.Config(**sections)


_LEARNER = config.LearnerConfig(batch_size=32)
_TOGETHER = config.ActorConfig(synchronisation='trajectory')
_IN_PROCESS = config.ExperimentConfig(in_process=True)
_MEMBER = config.PopulationConfig(members='a,b', adapted='max_gradient_norm')


@pytest.mark.parametrize('make, words', [
    (_of(replay=config.ReplayConfig(replay_fraction=1)),
     ('ReplayConfig.pacing_unrolls is None', 'replay_fraction is 1.0')),
    (_of(replay=config.ReplayConfig(replay_fraction=.5, pacing_unrolls=3)),
     ('ReplayConfig.pacing_unrolls is 3', 'replay_fraction is 0.5')),
    (_of(replay=config.ReplayConfig(core_state='recomputed'),
         agent=config.AgentConfig(use_lstm=True)),
     ("core_state = 'recomputed'", "sampling = 'episodes'")),
    (_of(replay=config.ReplayConfig(core_state='recomputed',
                                    sampling='episodes')),
     ("core_state = 'recomputed'", 'AgentConfig.use_lstm = True')),
    (_of(learner=config.LearnerConfig(num_learners=2),
         replay=config.ReplayConfig(replay_fraction=.5, sampling='priorities')),
     ("sampling = 'priorities'", 'LearnerConfig.num_learners = 1')),
    (_of(learner=_LEARNER, replay=config.ReplayConfig(replay_fraction=.3)),
     ('ReplayConfig.replay_fraction is 0.3', 'multiple of 1/32')),
    (_of(learner=_LEARNER, replay=config.ReplayConfig(replay_fraction=1-1e-9)),
     ('ReplayConfig.replay_fraction', 'multiple of 1/32')),
    (_of(actor=config.ActorConfig(controlled_lag_updates=1, num_envs=4)),
     ('ActorConfig.controlled_lag_updates', 'in_process = True')),
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
    (_of(actor=_TOGETHER, replay=config.ReplayConfig(replay_fraction=.5)),
     ("synchronisation = 'trajectory'", 'ReplayConfig.replay_fraction = 0')),
    (_of(actor=_TOGETHER, learner=config.LearnerConfig(precision='auto')),
     ("synchronisation = 'trajectory'", "precision = 'float32'", 'ratios')),
    (_of(actor=config.ActorConfig(synchronisation='step', num_actors=2)),
     ("synchronisation = 'step'", 'num_actors = None', 'the learner plays')),
    (_of(population=_MEMBER, learner=config.LearnerConfig(num_learners=2)),
     ('PopulationConfig.members is for a single', 'num_learners = 1')),
    (_of(population=_MEMBER),
     ('max_gradient_norm', 'is None; set it to a number')),
    *(((lambda members=members: config.PopulationConfig(members=members)),
       ('two or more different names',)) for members in (
           'a', 'a,b,a', 'a,../b')),
    (lambda: config.PopulationConfig(adapted='learning_rate,decay'),
     ("names 'decay'",)),
])
def test_values_that_do_not_go_together_are_refused(make, words):
  with pytest.raises(config.ConfigError) as raised:
    make()
  assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize('batch_size, fraction, pacing, num_replayed, fresh', [
    (32, 0., None, 0, 32), (30, .1, None, 3, 27), (12, 1 / 3, None, 4, 8),
    (32, 1, 4, 32, 4)])
def test_share_of_the_replay_is_exact(
    batch_size, fraction, pacing, num_replayed, fresh):
  made = config.Config(
      learner=config.LearnerConfig(batch_size=batch_size),
      replay=config.ReplayConfig(
          replay_fraction=fraction, pacing_unrolls=pacing))
  assert (made.num_replayed, made.num_fresh) == (num_replayed, fresh)


def _changed(change):
  """Writes the default config as JSON, with something changed in it."""
  values = json.loads(config.to_json(config.Config()))
  change(values)
  return json.dumps(values)


@pytest.mark.parametrize('made', [
    config.Config(), configs.changed_everywhere()])
def test_json_reads_back_equal(made):
  assert config.from_json(config.to_json(made)) == made


@pytest.mark.parametrize('text, words', [
    ('{', 'is no config'), ('[]', 'is no config'), ('{}', 'actor.* is missing'),
    (_changed(lambda v: v.update(os={'path': ''})), 'os.path is unknown'),
    (_changed(lambda v: v['agent'].pop('torso')),
     'agent.torso is missing; install the same version'),
    (_changed(lambda v: v['agent'].update(wings=2)),
     'another version of impala_tf: agent.wings is unknown'),
    (_changed(lambda v: v.update(agent=[])), 'is no config'),
    (_changed(lambda v: v['learner'].update(batch_size=0)),
     'LearnerConfig.batch_size must be at least 1')])
def test_other_json_is_refused_in_one_line(text, words):
  with pytest.raises(config.ConfigError, match=words):
    config.from_json(text)
