"""Numbers that the config leaves open follow from the machine."""

import dataclasses
import re
from unittest import mock

import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.runtime import sizing

ANY = mock.ANY
_DEFAULT = config_lib.Config()
_TWO = config_lib.Config(
    learner=config_lib.LearnerConfig(num_learners=2, batch_size=64))
_DEEP = config_lib.Config(agent=config_lib.AgentConfig(torso='deep'))
_REPLAY = config_lib.Config(
    replay=config_lib.ReplayConfig(replay_fraction=0.75))


def _of_torso(torso, in_process=False):
  return config_lib.Config(
      agent=config_lib.AgentConfig(torso=torso),
      learner=config_lib.LearnerConfig(batch_size=128),
      experiment=config_lib.ExperimentConfig(in_process=in_process))


def _of_levels(level, in_process=False, **actor):
  return config_lib.Config(
      environment=config_lib.EnvironmentConfig(level=level),
      experiment=config_lib.ExperimentConfig(in_process=in_process),
      actor=config_lib.ActorConfig(**actor))


_SIX = ','.join(f'atari/{game}' for game in (
    'pong', 'breakout', 'qbert', 'seaquest', 'beam_rider', 'space_invaders'))


def _together(synchronisation='trajectory', batch_size=32, in_process=False,
              **actor):
  return config_lib.Config(
      experiment=config_lib.ExperimentConfig(in_process=in_process),
      actor=config_lib.ActorConfig(synchronisation=synchronisation, **actor),
      learner=config_lib.LearnerConfig(batch_size=batch_size))


@pytest.mark.parametrize('config, cores, num_actors, num_envs, num_threads', [
    (_DEFAULT, 1, 1, 32, 1), (_DEFAULT, 4, 4, 20, 2), (_DEFAULT, 16, 16, 16, 5),
    # Each learner has an equal share of actors and cores.
    (_TWO, 1, 2, 32, 1), (_TWO, 5, 4, 32, 2), (_TWO, 16, 16, 20, 3),
    # Two and a half batches of unrolls are being played.
    (config_lib.Config(learner=config_lib.LearnerConfig(batch_size=24)),
     2, 2, 30, 1),
    # The deep network takes most of the threads.
    (_DEEP, 4, 4, 20, 4), (_DEEP, 1, 1, 32, 1),
    # Replay leaves 8 new unrolls: 25 % of the work become
    # 4 * 25 / (4 * 25 + 75) = 57 %.
    (_REPLAY, 4, 4, 16, 3), (_REPLAY, 1, 1, 20, 1),
    # Only batches for an MLP grow with the learners: 2.5 * 128 / 2.
    (_of_torso('mlp'), 2, ANY, 160, ANY), (_of_torso('mlp'), 1, ANY, 256, ANY),
    (_of_torso('mine'), 2, ANY, 32, ANY),
    # In process numbers do not depend on the machine.
    (_of_torso('mlp', True), 2, ANY, 16, ANY),
    (_of_torso('mlp', True), 8, ANY, 16, ANY),
    # Levels have equal shares, or one environment at least. 84 are 14 of each;
    # 20 would do for one level.
    (_of_levels(_SIX), 4, ANY, 21, ANY),
    (_of_levels('dmlab30'), 4, ANY, 30, ANY),  # 4 of each.
    (_of_levels('dmlab30'), 1, ANY, 32, ANY),  # 60 would be too many.
    # 57 would be; 80 are one or two of each.
    (_of_levels('atari57'), 4, ANY, 20, ANY),
    (_of_levels('atari57'), 2, ANY, 32, ANY),
    (_of_levels('atari57'), 1, ANY, 57, ANY),
    (_of_levels('atari57', True), 8, ANY, 57, ANY),  # One actor plays all.
    # Environment processes take the place of actors.
    *((_of_levels('catch', env_processes=n), 4, num_actors, num_envs, ANY)
      for n, num_actors, num_envs in (
          (1, 4, 20), (2, 2, 32), (16, 1, 32), (40, 1, 40))),
    # Synchronous actors play one batch, and nobody plays while it is learned.
    (_together(), 6, 4, 8, 6), (_together(batch_size=5), 4, 1, 5, 4),
    (_together(batch_size=3), 64, 3, 1, 64),
    (_together(num_envs=2), 2, 16, 2, 2), (_together(num_actors=8), 2, 8, 4, 2),
    (_together(env_processes=2), 4, 2, 16, 4),
    (_together(in_process=True, num_actors=2), 2, 1, 32, 2),
    (_together('step', env_processes=3), 4, 1, 32, 4)])
def test_open_numbers_follow_from_the_cores(
    config, cores, num_actors, num_envs, num_threads):
  fitted = sizing.fit(config, cores)
  assert (fitted.actor.num_actors, fitted.actor.num_envs,
          fitted.learner.num_threads) == (num_actors, num_envs, num_threads)
  assert dataclasses.replace(  # Nothing else is changed.
      fitted, actor=config.actor, learner=config.learner) == config
  assert fitted.learner.queue_capacity == config.learner.queue_capacity


def test_memory_is_that_of_the_machine_or_its_container(tmp_path):
  assert sizing.memory_bytes() > 1 << 28
  for path, text in (('proc/self/cgroup', '0::/job/step\n4:memory:/\n'),
                     ('sys/fs/cgroup/job/memory.max', '2000\n'),
                     ('sys/fs/cgroup/job/step/memory.max', 'max\n'),
                     ('sys/fs/cgroup/memory/memory.limit_in_bytes', '3000\n')):
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
  assert sizing.memory_bytes(tmp_path) == 2000  # A Slurm job's.
  (tmp_path / path).write_text('1000\n')
  assert sizing.memory_bytes(tmp_path) == 1000
  assert sizing.memory_bytes(tmp_path / 'none') > 1 << 28


def test_configured_numbers_stay():
  config = config_lib.Config(
      actor=config_lib.ActorConfig(num_actors=3, num_envs=1),
      learner=config_lib.LearnerConfig(num_threads=7))
  assert sizing.fit(config, cores=16) == config
  assert sizing.explain(config) == [
      '3 actor processes (as configured)',
      '1 environment each (as configured)',
      '7 learner threads (as configured)']


@pytest.mark.parametrize('config, words', [
    (config_lib.Config(
        actor=config_lib.ActorConfig(num_actors=2),
        learner=config_lib.LearnerConfig(num_learners=3)),
     '3 learners cannot.*num_actors to 3 at least'),
    (_of_levels('atari57', num_actors=4, num_envs=14),
     r'57 levels \(atari57\) .* 4 actor processes with 14 environments each; '
     'raise ActorConfig.num_envs to 15 at least'),
    (_of_levels('catch', env_processes=5, num_envs=4),
     'env_processes is 5, but ActorConfig.num_envs gives only 4 envi'),
    (_together(num_actors=2, num_envs=8),
     '2 processes with 8 environments each are no batch of 32; set '
     'LearnerConfig.batch_size to 16'),
    (_together('step', num_envs=31), '1 process with 31 environments each')])
def test_numbers_that_do_not_go_together_are_refused(config, words):
  with pytest.raises(config_lib.ConfigError, match=words):
    sizing.fit(config, cores=2)


@pytest.mark.parametrize('config, lines', [
    (_DEFAULT, [r'\d+ actor process.* \(one for each of \d+ core',
                'environments each .*32 new unrolls',
                r'learner thread.* to take 25% of \d+ cores?; rounded up']),
    (_TWO, [r'2 learners \(as configured\)', r', as many for each learner\)',
            '', 'learner threads? each .*, shared by 2 learners; ']),
    (_of_torso('mlp'), ['', '16 to 256, ', '']),
    (_of_torso('mine'), ['', '16 to 32, ', '']),
    (_of_levels(_SIX), ['', '6 levels have equal shares', '']),
    (_of_levels('catch', env_processes=2),
     ['cores? with 2 environment processes for each',
      r'2 environment processes each \(as configured\)', '', '']),
    (_together('step'), [r'no actor process \(the learner plays',
                         r'^32 environments \(a batch of 32 in all\)', '']),
    (config_lib.Config(experiment=config_lib.ExperimentConfig(in_process=True)),
     [r'^no actor process .*in_process\)', '^[0-9]+ environments? \\(', ''])])
def test_each_choice_is_explained(config, lines):
  explained = sizing.explain(config)
  assert len(explained) == len(lines)
  for line, words in zip(explained, lines):
    assert re.search(words, line), line


@pytest.mark.parametrize('asked, intra_op, inter_op', [
    (1, 1, 1), (2, 1, 2), (3, 3, 2), (8, 8, 2)])
def test_two_threads_run_an_operation_each_and_more_share_them(
    monkeypatch, asked, intra_op, inter_op):
  found = {}
  for name in ('intra', 'inter'):
    # The real ones cannot be called once anything was computed.
    monkeypatch.setattr(
        tf.config.threading, f'set_{name}_op_parallelism_threads',
        lambda number, name=name: found.update({name: number}))
  sizing.set_threads(asked)
  assert found == {'intra': intra_op, 'inter': inter_op}
