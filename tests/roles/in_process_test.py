"""Whole runs in one process: repeatable, and resumable."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types as tf_types
from impala_tf.agents import acting
from impala_tf.agents import saved
from impala_tf.algorithms import table
from impala_tf.core import actor
from impala_tf.core import experiment
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.roles import dynamic_batching_actor
from impala_tf.roles import endpoint
from impala_tf.roles import evaluation
from impala_tf.roles import learner_parts
from impala_tf.runs import metrics
from impala_tf.runtime import learner_group
from impala_tf.runtime import precision
from impala_tf.runtime import user_modules
from tests.fixtures import conventions
from tests.fixtures import dummy_algorithm
from tests.fixtures import hosts
from tests.fixtures import limits
from tests.fixtures import locks
from tests.fixtures import reports
from tests.fixtures import spoilt_catch

pytestmark = pytest.mark.usefixtures('servers_stay')

# Columns that depend on the clock, or on how far ahead the reader's thread is.
_TIMES = ('secs', 'frames_per_sec', 'learner_wait_share', 'queue_occupancy')
_UPDATES = 8
_FRAMES_PER_UPDATE = 4 * 5


def _config(seed=1, **experiment_options):
  """Makes a config of Catch; 3 environments do not fill batches of 4 evenly."""
  options = {'total_frames': _UPDATES * _FRAMES_PER_UPDATE,
             **experiment_options}
  return config_lib.Config(
      experiment=config_lib.ExperimentConfig(
          **{'seed': seed, 'in_process': True, **options}),
      environment=config_lib.EnvironmentConfig(level='catch'),
      agent=config_lib.AgentConfig(torso='mlp', hidden_size=16),
      actor=config_lib.ActorConfig(num_envs=3),
      learner=config_lib.LearnerConfig(batch_size=4, unroll_length=5))


def _rows(config, run_dir, host=None):
  """Trains; returns the rows without what depends on the clock."""
  hosts.run_in_process(config, run_dir, host)
  return [{k: v for k, v in row.items() if k not in _TIMES}
          for row in metrics.read_rows(str(run_dir))]


@pytest.fixture(name='rows', scope='module')
def _first_rows(tmp_path_factory, servers_stay):
  del servers_stay  # Only to be there first.
  return _rows(_config(), tmp_path_factory.mktemp('run'))


@pytest.mark.slow
def test_row_of_several_updates_has_their_means_and_changes_no_other(
    rows, tmp_path):
  fewer = _rows(_config(log_interval_updates=3), tmp_path)
  # A run's last row has what is left.
  assert [row['updates'] for row in fewer] == [3, 6, 8]
  last, expected = fewer[-1], rows[-1]
  for name in ('frames', 'episodes', 'episode_return'):
    assert last[name] == expected[name]
  assert last['loss/total'] == pytest.approx(
      np.mean([row['loss/total'] for row in rows[6:]]))


def test_parameters_are_published_before_they_are_fetched_only(
    tmp_path, monkeypatch):
  published = []
  write = weights.Table.write

  def note(self, stamp, parameters):
    published.append(stamp.version)
    write(self, stamp, parameters)

  monkeypatch.setattr(weights.Table, 'write', note)
  rows = _rows(_with(_config(), 'actor', num_envs=12), tmp_path)
  # The actor plays 12 unrolls at a time, which are three batches.
  assert published == [0, 3, 6]
  assert [row['policy_lag'] for row in rows] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_there_is_a_row_an_update(rows):
  assert [row['updates'] for row in rows] == list(range(1, _UPDATES + 1))
  assert [row['frames'] for row in rows] == [
      _FRAMES_PER_UPDATE * n for n in range(1, _UPDATES + 1)]
  for row in rows:
    assert all(math.isfinite(value) for value in row.values())
  # Turns are taken: what is played is learned from at once or, where a few
  # unrolls were left over, with the next update.
  assert max(row['policy_lag_max'] for row in rows) <= 1
  assert rows[-1]['episodes'] > 0


@pytest.mark.parametrize('algorithm, correction', [
    ('impala', 'vtrace'), ('a3c', 'none')])
def test_learner_prints_what_the_user_should_know_of_the_level(
    tmp_path, capsys, monkeypatch, algorithm, correction):
  make = experiment.make_probe_environment

  def remarking(config):
    environment = make(config)
    environment.remarks.append('it drifts')
    return environment

  monkeypatch.setattr(experiment, 'make_probe_environment', remarking)
  hosts.run_in_process(
      _with(_config(algorithm=algorithm), 'impala', correction=correction),
      tmp_path)
  assert capsys.readouterr().err.count('note: it drifts\n') == 1


def test_same_seed_gives_the_same_numbers(rows, tmp_path):
  assert _rows(_config(), tmp_path) == rows


@pytest.mark.slow
def test_learner_says_of_continuous_actions_what_the_actor_said(tmp_path):
  config = _config(total_frames=4 * 20)
  rows = _rows(dataclasses.replace(
      config,
      environment=config_lib.EnvironmentConfig(level='gym/InvertedPendulum-v5'),
      agent=dataclasses.replace(config.agent, use_lstm=True, lstm_size=8),
      learner=dataclasses.replace(config.learner, unroll_length=20)), tmp_path)
  row, = rows
  # Nothing has been learned, so each ratio is 1: the action as it was sampled,
  # its logits and the memory of the last one have all arrived.
  assert row['rho/mean'] == pytest.approx(1, abs=1e-5)
  assert row['kl_behaviour_target'] == pytest.approx(0, abs=1e-6)
  assert row['episodes'] > 0
  # About that of variance SoftPlus(0) = log 2.
  assert row['entropy'] == pytest.approx(
      0.5 * math.log(2 * math.pi * math.e * math.log(2)), abs=0.2)


def _locks_config(total_frames, **sections):
  """Makes a config of nested observations, several choices and masks."""
  user_modules.load([locks.MODULE])
  return config_lib.Config(**{
      'experiment': config_lib.ExperimentConfig(
          in_process=True, total_frames=total_frames),
      'environment': config_lib.EnvironmentConfig(level=locks.LEVEL),
      'agent': config_lib.AgentConfig(
          hidden_size=16, use_lstm=True, lstm_size=8,
          normalise_observations=True),
      'actor': config_lib.ActorConfig(num_envs=4),
      'learner': config_lib.LearnerConfig(batch_size=4, unroll_length=12),
      **sections})


def _evaluate(run_dir, config, num_episodes=20):
  environment = experiment.make_environment(config, 5, 3, training=False)
  return evaluation.evaluate(
      saved.load_agent(str(run_dir)).agent, environment, num_episodes, seed=0)


@pytest.mark.slow
def test_locks_are_played_learned_from_resumed_and_evaluated(tmp_path):
  """The environment fails at an illegal action."""
  rows = _rows(_locks_config(2 * 48), tmp_path)
  assert [row['updates'] for row in rows] == [1, 2]
  # Nothing had been learned: features, masks, memory of the last choices and
  # logits of the behaviour policy have all arrived as they were.
  assert rows[0]['rho/mean'] == pytest.approx(1, abs=1e-5)
  assert rows[0]['kl_behaviour_target'] == pytest.approx(0, abs=1e-6)
  # Below log(4 x 3), that of a policy without masks.
  assert 1 < rows[0]['entropy'] < 2.2
  config = _locks_config(4 * 48)
  rows = _rows(config, tmp_path)
  assert [row['updates'] for row in rows] == [1, 2, 3, 4]
  agent = saved.load_agent(str(tmp_path)).agent
  count, mean = agent.normaliser._count.numpy(), agent.normaliser.moments.mean
  assert count == 4 * 48  # From before, too.
  assert abs(mean[3] - locks.FAR) < 0.5
  result = _evaluate(tmp_path, config)
  assert result.frames == [locks.NUM_STEPS] * 20
  assert all(0 <= r <= locks.NUM_STEPS for r in result.returns)


@pytest.mark.slow
def test_locks_are_learned(tmp_path):
  """Image, one-hot and a gauge near 1000 must all be understood."""
  config = _locks_config(
      40_000,
      agent=config_lib.AgentConfig(
          hidden_size=64, normalise_observations=True),
      actor=config_lib.ActorConfig(num_envs=16),
      learner=config_lib.LearnerConfig(batch_size=16, unroll_length=10),
      optimizer=config_lib.OptimizerConfig(learning_rate=2e-3, epsilon=1e-3),
      impala=config_lib.ImpalaConfig(
          discount=0., reward_clipping='none', entropy_cost=0.003))
  rows = _rows(config, tmp_path)
  assert rows[10]['episode_return'] < 5  # Any legal actions give 4.1 of 10.
  assert np.mean(_evaluate(tmp_path, config, 40).returns) > 9


@pytest.mark.slow
@pytest.mark.parametrize('num_steps', [1, 5])
@pytest.mark.parametrize('is_limit', [
    True, pytest.param(False, marks=pytest.mark.nightly)])
@pytest.mark.parametrize('algorithm, sections', [
    ('impala', {}),
    ('laser', {'replay': config_lib.ReplayConfig(replay_fraction=0.5)}),
    ('impala_popart', {
        'impala': config_lib.ImpalaConfig(popart_step_size=1e-2)}),
    pytest.param('a3c', {
        'impala': config_lib.ImpalaConfig(correction='none')},
                 marks=pytest.mark.nightly),
    pytest.param('n_step_q', {
        'asynchronous': config_lib.AsyncConfig(epsilon_anneal_frames=2000)},
                 marks=pytest.mark.nightly)])
def test_reward_on_which_a_time_limit_falls_is_learned(
    tmp_path, algorithm, sections, is_limit, num_steps):
  user_modules.load([limits.MODULE])
  config = config_lib.Config(**{
      'experiment': config_lib.ExperimentConfig(
          algorithm=algorithm, in_process=True, total_frames=8000),
      'environment': config_lib.EnvironmentConfig(
          level=limits.LEVEL,
          kwargs={'num_steps': num_steps, 'is_limit': is_limit}),
      'agent': config_lib.AgentConfig(torso='mlp', hidden_size=16),
      'actor': config_lib.ActorConfig(num_envs=4),
      'learner': config_lib.LearnerConfig(batch_size=4, unroll_length=10),
      'optimizer': config_lib.OptimizerConfig(learning_rate=4e-3),
      **sections})
  hosts.run_in_process(config, tmp_path)
  # Half of it by chance.
  assert np.mean(_evaluate(tmp_path, config, 100).returns) > 0.8


def _returns_of_lamps(run_dir, num_frames, **kwargs):
  """Trains on a Lamp; returns each row's mean return."""
  config = dataclasses.replace(
      _config(total_frames=num_frames),
      environment=config_lib.EnvironmentConfig(
          level=conventions.LEVEL, kwargs=kwargs),
      agent=config_lib.AgentConfig(torso='auto', hidden_size=32),
      impala=config_lib.ImpalaConfig(entropy_cost=0.001),
      optimizer=config_lib.OptimizerConfig(learning_rate=0.002),
      actor=config_lib.ActorConfig(num_envs=8),
      learner=config_lib.LearnerConfig(batch_size=8, unroll_length=10))
  user_modules.load([conventions.MODULE])
  return [row['episode_return'] for row in _rows(config, run_dir)
          if row['episode_return'] is not None]


@pytest.mark.parametrize('picture', conventions.PICTURES)
@pytest.mark.slow
def test_pictures_of_every_convention_are_learned(tmp_path, picture):
  returns = _returns_of_lamps(tmp_path, 8_000, picture=picture)
  assert max(returns) > 0.9 * conventions.NUM_STEPS


@pytest.mark.slow
def test_actions_in_any_unit_are_learned_alike(tmp_path):
  as_known, *others = (
      _returns_of_lamps(tmp_path / str(i), 800, picture='planes', bounds=bounds)
      for i, bounds in enumerate([[-1, 1], [-.01, .01], [0, 10_000],
                                  [100, 200]]))
  assert np.ptp(as_known) > 0.1
  for returns in others:
    np.testing.assert_allclose(returns, as_known, atol=0.01)


def test_another_seed_gives_others(rows, tmp_path):
  other, = _rows(_config(seed=2, total_frames=1), tmp_path)
  for name in ('loss/total', 'gradient_norm', 'entropy'):
    assert other[name] != rows[0][name]


def test_stopped_run_goes_on_where_it_was(rows, tmp_path):
  host = hosts.StoppedAfter(3)
  _rows(_config(), tmp_path, host)
  assert [row['updates'] for row in host.rows] == [1, 2, 3]
  resumed = _rows(_config(), tmp_path)
  assert [row['updates'] for row in resumed] == list(range(1, _UPDATES + 1))
  for name in ('frames', 'learning_rate'):
    assert [r[name] for r in resumed] == [r[name] for r in rows]


@pytest.mark.parametrize('synchronisation', ['none', 'step'])
@pytest.mark.slow
def test_resumed_run_plays_other_games(
    synchronisation, tmp_path, monkeypatch):
  make, seeds = experiment.make_actor_environment, []

  def note_seed(config, seed, task):
    seeds.append(seed)
    return make(config, seed, task)

  monkeypatch.setattr(experiment, 'make_actor_environment', note_seed)
  config = dataclasses.replace(_config(), actor=config_lib.ActorConfig(
      num_envs=4, synchronisation=synchronisation))
  for _ in range(2):
    _rows(config, tmp_path, hosts.StoppedAfter(1))
  assert seeds == [experiment.make_seeds(1, 0)[0],
                   experiment.make_seeds(1, 1)[0]]


def test_refused_unrolls_are_played_anew(tmp_path, monkeypatch):
  write, written = queue_lib.UnrollWriter.write, []

  def spoil(self, unroll):
    written.append(len(written) % 5 == 2)
    if written[-1]:  # In an array that the next unroll overwrites.
      unroll.unroll.env_outputs.reward[:] = np.nan
    write(self, unroll)

  monkeypatch.setattr(queue_lib.UnrollWriter, 'write', spoil)
  rows = _rows(_config(), tmp_path)
  assert [row['updates'] for row in rows] == list(range(1, _UPDATES + 1))
  # All that was played and is neither learned from nor waiting.
  refused = rows[-1]['unrolls_refused']
  assert sum(written[:_UPDATES * 4]) <= refused <= sum(written)
  assert all(math.isfinite(row['loss/total']) for row in rows)


def test_refusals_end_with_the_episode_of_a_nan(tmp_path, monkeypatch):
  spoilt_catch.spoil_one_reward(monkeypatch)
  rows = _rows(_config(), tmp_path)
  # The spoilt episode has 9 steps, which lie in two unrolls of 5.
  assert rows[-1]['unrolls_refused'] == 2


def _lagging(lag_updates, updates):
  config = _config(total_frames=updates * _FRAMES_PER_UPDATE)
  return dataclasses.replace(
      config, optimizer=config_lib.OptimizerConfig(learning_rate=0.05),
      actor=config_lib.ActorConfig(
          num_envs=4, controlled_lag_updates=lag_updates))


@pytest.mark.parametrize('lag_updates', [0, 1, 10])
@pytest.mark.slow
def test_controlled_lag_is_exact(tmp_path, lag_updates):
  rows = _rows(_lagging(lag_updates, 15), tmp_path)
  for update, row in enumerate(rows):  # Before, there are no older ones.
    assert row['policy_lag'] == row['policy_lag_max'] == min(
        update, lag_updates)
  if lag_updates == 10:  # The parameters are old, not only their number.
    assert rows[-1]['kl_behaviour_target'] > 1e-4


_MAZES = ('tmaze/1', 'tmaze/2', 'tmaze/3')


def _multi_level(num_envs=7, **options):
  config = _config(**options)
  return dataclasses.replace(
      config, environment=config_lib.EnvironmentConfig(level=','.join(_MAZES)),
      actor=config_lib.ActorConfig(num_envs=num_envs))


def _level_frames(row):
  return [row[f'level/{level}/frames'] for level in _MAZES]


def test_levels_are_learned_together_and_told_apart(tmp_path):
  rows = _rows(_multi_level(), tmp_path)
  for row in rows:
    assert sum(_level_frames(row)) == row['frames']
  # 32 unrolls of seven environments in turn: 5 rounds of levels 0 1 2 0 1 2 0.
  assert _level_frames(rows[-1]) == [14 * 5, 9 * 5, 9 * 5]
  for row in rows:  # Every batch of four has some of each.
    assert all(f'level/{level}/policy_lag' in row for level in _MAZES)


def test_frames_of_levels_go_on_where_they_were(tmp_path):
  host = hosts.StoppedAfter(3)
  _rows(_multi_level(), tmp_path, host)
  for row in _rows(_multi_level(), tmp_path):
    assert sum(_level_frames(row)) == row['frames']


def _left(monkeypatch):
  """Has every agent walk left, into the wall, until its time is up."""

  def act(self, env_output):
    del self
    num_envs = len(env_output.reward)
    logits = np.full([num_envs, 4], [-9., -9., -9., 9.], np.float32)
    return tf_types.AgentOutput(np.full(num_envs, 3, np.int32), logits)

  monkeypatch.setattr(acting.Policy, 'act', act)


def test_return_is_credited_to_the_level_it_was_played_on(
    tmp_path, monkeypatch):
  _left(monkeypatch)
  last = _rows(_multi_level(
      num_envs=8, total_frames=80 * _FRAMES_PER_UPDATE), tmp_path)[-1]
  for length, level in enumerate(_MAZES, start=1):
    # 10 steps for each cell, at -0.1.
    assert last[f'level/{level}/episode_return'] == pytest.approx(-length)


@pytest.mark.slow
def test_updates_do_not_depend_on_what_levels_are_called(tmp_path, monkeypatch):
  """A level's number is for logs; learning does not see it."""
  (tmp_path / 'a').mkdir()
  (tmp_path / 'b').mkdir()
  rows = _rows(_multi_level(), tmp_path / 'a')
  unrolls = actor.UnrollBuffer.unrolls

  def renumbered(self):
    for packed in unrolls(self):
      level = packed.unroll.level_index  # A view of what is sent.
      level[...] = 2 - level
      yield packed
      level[...] = 2 - level  # The buffer is used again.

  monkeypatch.setattr(actor.UnrollBuffer, 'unrolls', renumbered)
  others = _rows(_multi_level(), tmp_path / 'b')
  assert _level_frames(others[-1]) == _level_frames(rows[-1])[::-1]
  assert [_without_levels(row) for row in others] == [
      _without_levels(row) for row in rows]


def _without_levels(row):
  return {k: v for k, v in row.items() if not k.startswith('level/')}


def _popart(**options):
  config = _multi_level(algorithm='impala_popart', **options)
  return _with(config, 'impala', popart_step_size=0.01, reward_clipping='none')


def test_popart_has_moments_of_each_level_that_go_on_and_are_loaded(tmp_path):
  host = hosts.StoppedAfter(4)
  _rows(_popart(), tmp_path, host)
  before = saved.load_agent(str(tmp_path)).agent.popart.moments
  rows = _rows(_popart(), tmp_path)
  after = saved.load_agent(str(tmp_path)).agent.popart.moments
  assert before.mean.shape == after.mean.shape == [len(_MAZES)]
  assert np.all(before.mean != 0) and np.all(before.variance != 1)
  # The first update after it uses what the one before it has left.
  assert rows[4]['popart/scale_max'] == pytest.approx(
      float(np.sqrt(max(before.variance))), rel=1e-5)
  assert rows[0]['popart/scale_min'] == rows[0]['popart/scale_max'] == 1
  assert len({row['popart/scale_min'] for row in rows}) == _UPDATES
  assert np.all(before.mean != after.mean)


def test_without_popart_nothing_is_normalised(rows, tmp_path):
  assert not any(name.startswith('popart/') for name in rows[0])
  _rows(_config(total_frames=1), tmp_path)
  assert saved.load_agent(str(tmp_path)).agent.popart is None


def _with(config, section, **options):
  return dataclasses.replace(config, **{section: dataclasses.replace(
      getattr(config, section), **options)})


@pytest.mark.slow
def test_resumed_run_learns_by_the_changed_config(tmp_path, monkeypatch):
  """Its values win over those in the checkpoint, once; annealing follows."""
  published = {}  # Updates to frames, as actors are told.
  write = weights.Table.write

  def note(self, stamp, parameters):
    published[stamp.version] = stamp.frames
    write(self, stamp, parameters)

  monkeypatch.setattr(weights.Table, 'write', note)
  old = _with(_config(), 'optimizer', learning_rate=0.5)
  before = _rows(old, tmp_path, hosts.StoppedAfter(2))[-1]
  new = _with(old, 'optimizer', learning_rate=0.25)
  new = _with(new, 'impala', entropy_cost=0.125)
  new = _with(new, 'experiment', total_frames=2 * old.experiment.total_frames)
  new = _with(new, 'learner', batch_size=2 * old.learner.batch_size)
  rows = _rows(new, tmp_path, hosts.StoppedAfter(2))[2:]
  frames = before['frames'] + 2 * _FRAMES_PER_UPDATE
  assert [row['frames'] for row in rows] == [
      frames, frames + 2 * _FRAMES_PER_UPDATE]
  for row in rows:
    left = 1 - (row['frames'] - 2 * _FRAMES_PER_UPDATE) / (
        new.experiment.total_frames)
    assert row['learning_rate'] == pytest.approx(0.25 * left)
    assert row['entropy_cost'] == 0.125
    assert row['epsilon'] == before['epsilon']
  assert published[rows[0]['updates']] == rows[0]['frames']
  # The other way, without a change of what the first change left.
  last = _rows(_with(new, 'impala', entropy_cost=0.5), tmp_path)[-1]
  assert last['entropy_cost'] == 0.5


def _replaying(fraction=0.75, updates=_UPDATES, **options):
  # One new unroll in a batch of four.
  config = _config(total_frames=updates * 5)
  return dataclasses.replace(config, replay=config_lib.ReplayConfig(
      replay_fraction=fraction, **options))


def test_replayed_unrolls_count_no_frames_and_are_told_apart(tmp_path):
  rows = _rows(_replaying(updates=20), tmp_path)
  assert [row['frames'] for row in rows] == [5 * n for n in range(1, 21)]
  last = rows[-1]
  # Which unrolls are drawn is random: over all updates, not in any one of them.
  assert any(row['replayed/policy_lag'] > row['policy_lag'] for row in rows)
  for name in ('rho/mean', 'rho/clipped_share', 'kl_behaviour_target',
               'entropy', 'loss/total'):
    assert all(f'{part}/{name}' in last for part in ('fresh', 'replayed'))
  assert last['loss/total'] == pytest.approx(
      last['fresh/loss/total'] + last['replayed/loss/total'], rel=1e-4)
  # 21 unrolls at least were played, of which one is as long as 5 frames.
  assert last['replay_occupancy'] >= 20 / 10_000


def _laser(replay, use_lstm=False, **laser_options):
  """Makes a config of LASER on a T-maze, one new unroll a batch."""
  config = _with(_config(), 'experiment', algorithm='laser',
                 total_frames=12 * 5)
  config = _with(config, 'environment', level='tmaze/10')
  config = _with(config, 'actor', num_envs=2)
  config = _with(config, 'optimizer', learning_rate=0.05)
  return dataclasses.replace(
      config, laser=config_lib.LaserConfig(**laser_options),
      agent=dataclasses.replace(config.agent, use_lstm=use_lstm, lstm_size=8),
      replay=config_lib.ReplayConfig(**{'replay_fraction': 0.75, **replay}))


@pytest.mark.parametrize('replay_options, use_lstm', [
    pytest.param({}, False, marks=pytest.mark.slow),
    ({'replay_fraction': 1., 'pacing_unrolls': 1}, False),
    ({'sampling': 'priorities', 'priority_correction': 0.5}, False),
    pytest.param({'sampling': 'episodes', 'episode_unrolls': 3}, True,
                 marks=pytest.mark.slow),
    ({'sampling': 'episodes', 'episode_unrolls': 3,
      'core_state': 'recomputed'}, True)],
    ids=['three quarters', 'all', 'priorities', 'episodes', 'recomputed'])
@pytest.mark.slow
def test_laser_learns_from_each_kind_of_replay(
    replay_options, use_lstm, tmp_path):
  rows = _rows(_laser(replay_options, use_lstm, threshold=1e-6), tmp_path)
  assert [row['frames'] for row in rows] == [5 * n for n in range(1, 13)]
  # Which unrolls are drawn is random: over all updates, not in any one of them.
  assert any(row['replayed/policy_lag'] > 0 for row in rows)
  # A threshold that small rejects whatever is not of this very policy.
  assert any(row['replayed/relevant_share'] < 1 for row in rows)
  assert any(row['kl_implied'] > 0 for row in rows)
  if 'pacing_unrolls' not in replay_options:
    assert rows[0]['fresh/loss/entropy'] < 0
    assert all(row['replayed/loss/entropy'] == 0 for row in rows)
  assert not any(name.startswith('unroll/') for name in rows[-1])
  assert all(math.isfinite(value) for row in rows for value in row.values())


@pytest.mark.parametrize('is_changed', [False, True])
@pytest.mark.slow
def test_resumed_run_has_its_replay_again(tmp_path, is_changed):
  host = hosts.StoppedAfter(5)
  config = _replaying(survives_resume=True)
  _rows(config, tmp_path, host)
  if is_changed:
    config = _with(config, 'learner', batch_size=8)
    config = _with(config, 'actor', num_envs=2)
    config = _with(config, 'optimizer', learning_rate=1e-5)
  row = _rows(config, tmp_path)[5]
  assert row['replay_occupancy'] >= host.rows[-1]['replay_occupancy'] > 0
  assert row['unrolls_refused'] == 0
  assert row['frames'] == host.rows[-1]['frames'] + (1 + is_changed) * 5


def test_algorithm_is_a_file_and_a_row(tmp_path, monkeypatch):
  monkeypatch.setitem(
      table.ROWS, 'dummy', table.Row(lambda: dummy_algorithm.ALGORITHM))
  dummy_algorithm.STEPS.clear()
  config = _config(algorithm='dummy', total_frames=2 * _FRAMES_PER_UPDATE)
  rows = _rows(config, tmp_path)
  assert [row['updates'] for row in rows] == [1, 2]
  # Its loss is what was learned from, and its own `after_step` was called once
  # an update with its totals.
  assert all(row['gradient_norm'] > 0 for row in rows)
  assert all(row['dummy/mean_square'] == row['loss/total'] / 4 for row in rows)
  assert dummy_algorithm.STEPS == [4., 4.]
  assert 'rho/mean' not in rows[0]


@pytest.mark.parametrize('config, words', [
    (_config(algorithm='impalla'),
     "algorithm must be one of impala, .*, but is 'impalla'"),
    (_multi_level(num_envs=2), 'num_envs to 3 at least'),
    (_with(_multi_level(), 'environment', level='tmaze/1,catch'),
     'learned together'),
    (_replaying(capacity_unrolls=10**9), 'GiB of memory')])
def test_config_that_cannot_be_trained_is_refused(config, words, tmp_path):
  with pytest.raises(config_lib.ConfigError, match=words):
    _rows(config, tmp_path)


@pytest.mark.slow
def test_run_goes_on_in_another_precision(tmp_path, monkeypatch):
  monkeypatch.setattr(precision, 'cpu_flags', lambda: {'amx_bf16'})
  make_actor, actors = dynamic_batching_actor.make_actor, []

  def show_agent(config, agent, *args):
    actors.append([v.dtype.name for v in agent.parts['torso']])
    heads = agent.parts['policy head'] + agent.parts['baseline head']
    assert {v.dtype for v in heads} == {tf.float32}
    return make_actor(config, agent, *args)

  monkeypatch.setattr(dynamic_batching_actor, 'make_actor', show_agent)
  frames = 0
  for chosen in 'float32', 'mixed_bfloat16', 'float32':
    frames += 2 * 4 * 5 * 4  # Two updates.
    rows = _rows(config_lib.Config(
        experiment=config_lib.ExperimentConfig(
            seed=1, in_process=True, total_frames=frames),
        environment=config_lib.EnvironmentConfig(level='atari/pong'),
        atari=config_lib.AtariConfig(height=36, width=36),
        agent=config_lib.AgentConfig(hidden_size=16),
        actor=config_lib.ActorConfig(num_envs=2),
        learner=config_lib.LearnerConfig(
            batch_size=4, unroll_length=5, precision=chosen)), tmp_path)
  assert [row['updates'] for row in rows] == list(range(1, 7))
  assert all(math.isfinite(value) for row in rows for value in row.values())
  assert actors == [['float32'] * 6, ['bfloat16'] * 6, ['float32'] * 6]


def test_catch_is_learned_from_in_bfloat16(rows, tmp_path):
  mixed = _rows(
      _with(_config(), 'learner', precision='mixed_bfloat16'), tmp_path)
  losses, mixed_losses = ([row['loss/total'] for row in some]
                          for some in (rows, mixed))
  assert losses[0] != mixed_losses[0]
  np.testing.assert_allclose(losses[0], mixed_losses[0], rtol=0.02)


class _Refused(Exception):
  """The end of a run that was shown to be refused."""


@pytest.mark.parametrize('flags, resolved', [
    ({'amx_bf16'}, 'mixed_bfloat16'), (set(), 'float32')])
def test_learners_compare_the_precision_that_the_machine_decided(
    tmp_path, monkeypatch, flags, resolved):
  monkeypatch.setattr(precision, 'cpu_flags', lambda: flags)
  config = dataclasses.replace(
      _config(), experiment=config_lib.ExperimentConfig(in_process=False),
      agent=config_lib.AgentConfig(torso='shallow'),
      learner=config_lib.LearnerConfig(precision='auto', num_threads=2))

  def refuse(announced, num_threads, chosen):
    assert (announced, num_threads, chosen) == (config, 2, resolved)
    raise _Refused

  learners = learner_group.alone()
  monkeypatch.setattr(learners, 'require_same', refuse)
  with pytest.raises(_Refused):
    learner_parts.make(
        config, config, endpoint.Endpoint(str(tmp_path)), 4, learners)


def test_numbers_of_episodes_are_columns_and_returns_are_not_scaled(
    tmp_path, monkeypatch):
  monkeypatch.setattr(user_modules, '_sources', {})
  user_modules.load([reports.MODULE])
  config = dataclasses.replace(
      _config(total_frames=200),
      environment=config_lib.EnvironmentConfig(
          level=','.join(reports.LEVELS), reward_scale=1e-3,
          episode_metrics='score,won,nothing'))
  row = _rows(config, tmp_path)[-1]
  # Each environment has played the same games, half of them of each level.
  own, other = (row[f'level/{level}/episode/score'] for level in reports.LEVELS)
  assert 0 < own < 50 < other - 50 < 100
  assert own < row['episode/score'] < other
  assert 0 < row['episode/won'] < 1
  assert 'episode/nothing' not in row
  assert row['episode_return'] == 3.
  # Rewards of 1 and 2, clipped, would leave 0.5 for each of 20 steps and more.
  assert row['loss/baseline'] < 1
