"""Whole runs in one process: repeatable, and resumable."""

import math
import types

import dm_env
import numpy as np
import pytest
import reverb

from impala_tf import config as config_lib
from impala_tf.agents import saved
from impala_tf.core import experiment
from impala_tf.core import queue as queue_lib
from impala_tf.core import transport
from impala_tf.roles import beginning
from impala_tf.roles import evaluation
from impala_tf.roles import learner_parts
from impala_tf.runs import training_log
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import cores
from impala_tf.runtime import learner_group
from impala_tf.runtime import user_modules
from tests.fixtures import configs
from tests.fixtures import hosts
from tests.fixtures import limits
from tests.fixtures import locks
from tests.fixtures import reports
from tests.fixtures import spoilt_catch

pytestmark = pytest.mark.usefixtures('servers_stay')

_UPDATES = 8
_FRAMES_PER_UPDATE = 4 * 5
_config = configs.of_catch


def _rows(config, run_dir, host=None):
  """Trains; returns the rows without what depends on the clock."""
  hosts.run_in_process(config, run_dir, host)
  return hosts.rows(run_dir)


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
  published = hosts.published(monkeypatch)
  rows = _rows(_config().replaced('actor', num_envs=12), tmp_path)
  # The actor plays 12 unrolls at a time, which are three batches.
  assert [stamp.version for stamp, _ in published] == [0, 3, 6]
  assert [row['policy_lag'] for row in rows] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_there_is_a_row_an_update(rows):
  assert [row['updates'] for row in rows] == list(range(1, _UPDATES + 1))
  assert [row['frames'] for row in rows] == [
      _FRAMES_PER_UPDATE * n for n in range(1, _UPDATES + 1)]
  for row in rows:
    assert all(math.isfinite(value) for value in row.values())
    assert not any(name.startswith('popart/') for name in row)
  # Turns are taken: unrolls are learned from at once or, if a few were left
  # over, with the next update.
  assert max(row['policy_lag_max'] for row in rows) <= 1
  assert rows[-1]['episodes'] > 0


@pytest.mark.parametrize('algorithm, correction', [
    ('impala', 'vtrace'), ('a3c', 'none')])
def test_learner_prints_remarks_on_the_level(
    tmp_path, capsys, monkeypatch, algorithm, correction):
  make = experiment.make_probe_environment

  def remarking(config):
    environment = make(config)
    environment.remarks.append('it drifts')
    return environment

  monkeypatch.setattr(experiment, 'make_probe_environment', remarking)
  hosts.run_in_process(_config(algorithm=algorithm).replaced(
      'impala', correction=correction), tmp_path)
  assert capsys.readouterr().err.count('note: it drifts\n') == 1


@pytest.mark.parametrize('algorithm, correction, num_envs', [
    ('impala', 'vtrace', 4), ('a3c', 'none', 16)])
def test_log_leaves_out_as_many_games_as_environments_play(
    tmp_path, monkeypatch, algorithm, correction, num_envs):
  made = []

  class Window(training_log.EpisodeWindow):
    def __init__(self, *arguments):
      super().__init__(*arguments)
      made.append(arguments[1:])

  monkeypatch.setattr(training_log, 'EpisodeWindow', Window)
  config = _config(algorithm=algorithm).replaced(
      'impala', correction=correction)
  for _ in range(2):
    hosts.run_in_process(
        config.replaced('actor', num_envs=4, num_actors=3), tmp_path)
  assert made == [(num_envs, False), (num_envs, True)]


def test_chosen_torso_of_pictures_is_named(capsys):
  spec = dm_env.specs.Array((24, 24, 3), np.uint8)
  beginning.show_remarks(
      config_lib.Config(agent=config_lib.AgentConfig(torso='auto')),
      types.SimpleNamespace(remarks=[], observation_spec=lambda: spec))
  assert "is 'grid' for pictures [24, 24, 3]\n" in capsys.readouterr().err


def test_same_seed_gives_the_same_numbers_and_another_gives_others(
    rows, tmp_path):
  assert _rows(_config(), tmp_path / 'same') == rows
  other, = _rows(_config(seed=2, total_frames=1), tmp_path / 'other')
  for name in ('loss/total', 'gradient_norm', 'entropy'):
    assert other[name] != rows[0][name]


@pytest.mark.slow
def test_learner_gives_continuous_actions_the_actors_probabilities(tmp_path):
  config = _config(total_frames=4 * 20).replaced(
      'environment', level='gym/InvertedPendulum-v5').replaced(
          'agent', use_lstm=True, lstm_size=8)
  row, = _rows(config.replaced('learner', unroll_length=20), tmp_path)
  # Nothing has been learned, so each ratio is 1. The action as it was sampled,
  # its logits and the memory of the last one have all arrived.
  assert row['rho/mean'] == pytest.approx(1, abs=1e-5)
  assert row['kl_behaviour_target'] == pytest.approx(0, abs=1e-6)
  assert row['episodes'] > 0
  # About that of variance SoftPlus(0) = log 2.
  assert row['entropy'] == pytest.approx(
      0.5 * math.log(2 * math.pi * math.e * math.log(2)), abs=0.2)


def _locks_config(total_frames):
  """Makes a config of nested observations, several choices and masks."""
  user_modules.load([locks.MODULE])
  return (_config(total_frames=total_frames)
          .replaced('environment', level=locks.LEVEL)
          .replaced('agent', torso='shallow', use_lstm=True, lstm_size=8,
                    normalise_observations=True)
          .replaced('actor', num_envs=4)
          .replaced('learner', unroll_length=12))


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
  normaliser = saved.load_agent(str(tmp_path)).agent.normaliser
  assert abs(normaliser.moments.mean[3] - locks.FAR) < 0.5
  result = _evaluate(tmp_path, config)
  assert result.frames == [locks.NUM_STEPS] * 20
  assert all(0 <= r <= locks.NUM_STEPS for r in result.returns)


@pytest.mark.slow
@pytest.mark.parametrize('num_steps', [1, 5])
@pytest.mark.parametrize('is_limit', [
    True, pytest.param(False, marks=pytest.mark.nightly)])
@pytest.mark.parametrize('algorithm, section, options', [
    ('impala', 'impala', {}), ('laser', 'replay', {'replay_fraction': 0.5}),
    ('impala_popart', 'impala', {'popart_step_size': 1e-2}),
    pytest.param('a3c', 'impala', {'correction': 'none'},
                 marks=pytest.mark.nightly),
    pytest.param('n_step_q', 'asynchronous', {'epsilon_anneal_frames': 2000},
                 marks=pytest.mark.nightly)])
def test_reward_on_which_a_time_limit_falls_is_learned(
    tmp_path, algorithm, section, options, is_limit, num_steps):
  user_modules.load([limits.MODULE])
  config = (_config(algorithm=algorithm, total_frames=8000)
            .replaced('environment', level=limits.LEVEL, kwargs={
                'num_steps': num_steps, 'is_limit': is_limit})
            .replaced('actor', num_envs=4).replaced('learner', unroll_length=10)
            .replaced('optimizer', learning_rate=4e-3)
            .replaced(section, **options))
  hosts.run_in_process(config, tmp_path)
  # Half of it by chance.
  assert np.mean(_evaluate(tmp_path, config, 100).returns) > 0.8


@pytest.mark.parametrize('synchronisation', ['none', 'step'])
@pytest.mark.slow
def test_resumed_run_plays_other_games(synchronisation, tmp_path, monkeypatch):
  make, seeds = experiment.make_actor_environment, []

  def note_seed(config, seed, task):
    seeds.append(seed)
    return make(config, seed, task)

  monkeypatch.setattr(experiment, 'make_actor_environment', note_seed)
  config = _config().replaced(
      'actor', num_envs=4, synchronisation=synchronisation)
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
  # The spoilt episode has 9 steps, which lie in two unrolls of 5.
  assert _rows(_config(), tmp_path)[-1]['unrolls_refused'] == 2


@pytest.mark.parametrize('lag_updates', [0, 10])
@pytest.mark.slow
def test_controlled_lag_is_exact(tmp_path, lag_updates):
  rows = _rows(_config(total_frames=15 * _FRAMES_PER_UPDATE).replaced(
      'actor', num_envs=4, controlled_lag_updates=lag_updates).replaced(
          'optimizer', learning_rate=0.05), tmp_path)
  for update, row in enumerate(rows):  # Before, there are no older ones.
    assert row['policy_lag'] == row['policy_lag_max'] == min(
        update, lag_updates)
  if lag_updates == 10:  # The parameters are old, not only their number.
    assert rows[-1]['kl_behaviour_target'] > 1e-4


_MAZES = ('tmaze/1', 'tmaze/2', 'tmaze/3')


def _multi_level(**experiment):
  return _config(**experiment).replaced('actor', num_envs=7).replaced(
      'environment', level=','.join(_MAZES))


def _level_frames(row):
  return [row[f'level/{level}/frames'] for level in _MAZES]


def test_levels_are_learned_together_and_counted_apart(tmp_path):
  _rows(_multi_level(), tmp_path, hosts.StoppedAfter(3))
  rows = _rows(_multi_level(), tmp_path)
  for row in rows:
    assert sum(_level_frames(row)) == row['frames']
    # Every batch of four has some of each.
    assert all(f'level/{level}/policy_lag' in row for level in _MAZES)
  # 12 and 20 unrolls of seven environments in turn, levels 0 1 2 0 1 2 0.
  assert _level_frames(rows[2]) == [5 * 5, 4 * 5, 3 * 5]
  assert _level_frames(rows[-1]) == [13 * 5, 10 * 5, 9 * 5]


def _popart():
  return _multi_level(algorithm='impala_popart').replaced(
      'impala', popart_step_size=0.01, reward_clipping='none')


def test_popart_has_moments_of_each_level_that_go_on_and_are_loaded(tmp_path):
  _rows(_popart(), tmp_path, hosts.StoppedAfter(4))
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


@pytest.mark.slow
def test_resumed_run_learns_by_the_changed_config(tmp_path, monkeypatch):
  """Its values win over those in the checkpoint, once; annealing follows."""
  published = hosts.published(monkeypatch)
  old = _config().replaced('optimizer', learning_rate=0.5)
  before = _rows(old, tmp_path, hosts.StoppedAfter(2))[-1]
  new = old.replaced('optimizer', learning_rate=0.25).replaced(
      'impala', entropy_cost=0.125).replaced(
          'experiment', total_frames=2 * old.experiment.total_frames).replaced(
              'learner', batch_size=2 * old.learner.batch_size)
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
  assert (rows[0]['updates'], rows[0]['frames']) in [
      stamp for stamp, _ in published]
  # The other way, without a change of what the first change left.
  last = _rows(new.replaced('impala', entropy_cost=0.5), tmp_path)[-1]
  assert last['entropy_cost'] == 0.5


def _replaying(updates=_UPDATES, **options):
  # One new unroll in a batch of four.
  return _config(total_frames=updates * 5).replaced(
      'replay', replay_fraction=0.75, **options)


def test_replayed_unrolls_count_no_frames_and_have_their_columns(
    tmp_path, monkeypatch):
  served, serve = [], transport.serve
  monkeypatch.setattr(transport, 'serve', lambda *arguments: (
      served.append(serve(*arguments)) or served[-1]))
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
  # A program's next run has room.
  info = reverb.Client(f'localhost:{served[0][0].port}').server_info()
  assert info['replay'].current_size == 0


def _laser(replay, use_lstm=False, **laser_options):
  """Makes a config of LASER on a T-maze, one new unroll a batch."""
  return (_config(algorithm='laser', total_frames=12 * 5)
          .replaced('environment', level='tmaze/10')
          .replaced('actor', num_envs=2)
          .replaced('optimizer', learning_rate=0.05)
          .replaced('laser', **laser_options)
          .replaced('agent', use_lstm=use_lstm, lstm_size=8)
          .replaced('replay', **{'replay_fraction': 0.75, **replay}))


@pytest.mark.parametrize('replay_options, use_lstm', [
    ({}, False), ({'replay_fraction': 1., 'pacing_unrolls': 1}, False),
    ({'sampling': 'priorities', 'priority_correction': 0.5}, False),
    ({'sampling': 'episodes', 'episode_unrolls': 3}, True),
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
  has_fresh = 'pacing_unrolls' not in replay_options
  assert has_fresh == ('fresh/loss/total' in rows[0])
  if has_fresh:
    assert rows[0]['fresh/loss/entropy'] < 0
    assert all(row['replayed/loss/entropy'] == 0 for row in rows)
  assert not any(name.startswith('unroll/') for name in rows[-1])
  assert all(math.isfinite(value) for row in rows for value in row.values())


@pytest.mark.slow
def test_resumed_run_of_another_config_has_its_replay_again(tmp_path):
  host = hosts.StoppedAfter(5)
  config = _replaying(survives_resume=True)
  _rows(config, tmp_path, host)
  row = _rows(config.replaced('learner', batch_size=8).replaced(
      'actor', num_envs=2).replaced(
          'optimizer', learning_rate=1e-5), tmp_path)[5]
  assert row['replay_occupancy'] >= host.rows[-1]['replay_occupancy'] > 0
  assert row['unrolls_refused'] == 0
  assert row['frames'] == host.rows[-1]['frames'] + 2 * 5


@pytest.mark.slow
def test_run_goes_on_in_another_precision(tmp_path, monkeypatch):
  monkeypatch.setattr(cores, 'cpuinfo', lambda fact: 'amx_bf16')
  config = _config().replaced('environment', level='atari/pong').replaced(
      'atari', height=36, width=36).replaced('agent', torso='shallow')
  for i, chosen in enumerate(('float32', 'mixed_bfloat16', 'float32')):
    # Two updates of frames that were repeated four times.
    rows = _rows(config.replaced('learner', precision=chosen).replaced(
        'experiment', total_frames=8 * (i + 1) * _FRAMES_PER_UPDATE), tmp_path)
  assert [row['updates'] for row in rows] == list(range(1, 7))
  assert all(math.isfinite(value) for row in rows for value in row.values())


def test_learners_compare_the_precision_that_the_machine_decided(
    tmp_path, monkeypatch):
  monkeypatch.setattr(cores, 'cpuinfo', lambda fact: 'amx_bf16')
  config = _config(in_process=False).replaced(
      'agent', torso='shallow').replaced(
          'learner', precision='auto', num_threads=2)

  def refuse(announced, num_threads, chosen):
    assert (announced, num_threads, chosen) == (config, 2, 'mixed_bfloat16')
    raise config_lib.UserError('they differ')

  learners = learner_group.alone()
  monkeypatch.setattr(learners, 'require_same', refuse)
  with pytest.raises(config_lib.UserError, match='they differ'):
    learner_parts.make(config, control_lib.Endpoint(str(tmp_path)), learners)


def test_numbers_of_episodes_are_columns_and_returns_are_not_scaled(
    tmp_path, modules_forgotten):
  user_modules.load([reports.MODULE])
  config = _config(total_frames=200).replaced(
      'environment', level=','.join(reports.LEVELS), reward_scale=1e-3,
      episode_metrics='score,won,nothing')
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
