"""Runs of workers that share parameters: in one process, and in several."""

import contextlib
import math
import os

import numpy as np
import pytest
import reverb

from impala_tf import config as config_lib
from impala_tf.a3c import store as store_lib
from impala_tf.agents import saved
from impala_tf.comms import config_table
from impala_tf.core import experiment
from impala_tf.core import queue as queue_lib
from impala_tf.envs import catch
from impala_tf.roles import a3c_workers
from impala_tf.roles import evaluation
from impala_tf.roles import learner_state
from impala_tf.roles import shared_parameters
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces
from tests.fixtures import hosts
from tests.fixtures import parameters
from tests.fixtures import programs
from tests.fixtures import spoilt_catch


def _config(algorithm='a3c', total_frames=60, asynchronous=(), **sections):
  return config_lib.Config(**{
      'experiment': config_lib.ExperimentConfig(
          algorithm=algorithm, in_process=True, total_frames=total_frames),
      'environment': config_lib.EnvironmentConfig(level='catch'),
      'agent': config_lib.AgentConfig(torso='mlp', hidden_size=16),
      'impala': config_lib.ImpalaConfig(correction='none'),
      'optimizer': config_lib.OptimizerConfig(learning_rate=0.01, epsilon=0.1),
      'asynchronous': config_lib.AsyncConfig(**{
          'num_workers': 3, 'target_interval_frames': 20,
          'epsilon_anneal_frames': 1000, **dict(asynchronous)}),
      **sections})


def _rows(config, run_dir, host=None):
  """Trains; returns a row an update, without what depends on the clock."""
  host = host or hosts.StoppedBy()
  shared_parameters.run_in_process(
      config, str(run_dir), host.control, host.reports, updates_a_row=1)
  return hosts.rows(run_dir)


_LSTM = config_lib.AgentConfig(
    torso='mlp', hidden_size=16, use_lstm=True, lstm_size=8)


@pytest.mark.parametrize('agent', [_config().agent, _LSTM],
                         ids=['feed-forward', 'lstm'])
def test_policy_that_acts_is_the_one_that_learns(agent, tmp_path):
  """A ratio is off 1 if parameters move, or x_0 is acted before a pull."""
  rows = _rows(_config(
      agent=agent, total_frames=120, optimizer=config_lib.OptimizerConfig(
          learning_rate=0.05, epsilon=0.01)), tmp_path)
  ratios = [row['rho/mean'] for row in rows]
  assert len(ratios) > 20
  np.testing.assert_allclose(ratios, 1, atol=1e-5)
  assert rows[-1]['episodes'] == pytest.approx(120 / 9, abs=3)


@pytest.mark.slow
def test_whole_episode_is_learned_from_by_the_policy_that_played_it(tmp_path):
  rows = _rows(gin_config.load('configs/a3c/pendulum.gin', (
      'ExperimentConfig.in_process = True', 'AsyncConfig.num_workers = 2',
      'ExperimentConfig.total_frames = 60')), tmp_path)
  assert len(rows) > 2
  for number, row in enumerate(rows, start=1):
    assert row['updates'] == row['episodes'] == number
    assert row['rho/mean'] == pytest.approx(1, abs=1e-5)
    assert row['entropy'] > 0


@pytest.mark.parametrize('algorithm', ['a3c', 'one_step_sarsa'])
def test_same_seed_gives_the_same_numbers(tmp_path, algorithm):
  # Short enough that the final epsilons, which workers draw, decide.
  config = _config(algorithm, asynchronous={'epsilon_anneal_frames': 20})
  rows, again = (_rows(config, tmp_path / name) for name in 'ab')
  assert rows == again
  assert rows[-1]['target_syncs'] == rows[-1]['frames'] // 20
  # Episodes of 9 steps are segments of 5 and 4, for each of three workers.
  assert [row['frames'] for row in rows[:6]] == [5, 10, 15, 19, 23, 27]
  assert [row['episodes'] for row in rows[:6]] == [0, 0, 0, 1, 2, 3]
  assert rows[-1]['frames'] >= 60
  assert [row['updates'] for row in rows] == list(range(1, len(rows) + 1))
  for row in rows:
    assert all(math.isfinite(value) for value in row.values())
    assert row['policy_lag_max'] == 0


def test_workers_and_processes_play_different_games(monkeypatch):
  seeds, numbers = [], []

  def note(config, num_envs, seed, training, first_slot):
    seeds.append(seed)
    numbers.append(first_slot)
    return catch.CatchEnvironment(num_envs, seed)

  monkeypatch.setattr(experiment, 'make_environment', note)
  config = _config(asynchronous={'num_workers': 5})
  # Processes have other seeds, and do not depend on it.
  for task, seed in (0, 7), (1, 7), (1, 8):
    a3c_workers.make_workers(
        config, lambda agent, target_agent: None, task, 2, seed)
  assert len(seeds) == 3 + 2 + 2 == len(set(seeds))
  assert numbers == [0, 2, 4, 1, 3, 1, 3]


@pytest.mark.parametrize('optimizer', ['shared_rmsprop', 'momentum_sgd'])
def test_stopped_run_goes_on_with_all_that_workers_share(optimizer, tmp_path):
  config = _config('n_step_q', asynchronous={'optimizer': optimizer})
  _rows(config, tmp_path, hosts.StoppedAfter(6))
  parts = shared_parameters.Learner(config, str(tmp_path))
  assert parts.store.counts[:2] == (27, 6)
  target = parts.store.target_parameters
  # It is that of 23 frames.
  assert (parts.store.parameters != target).any()
  fresh = shared_parameters.Learner(config, str(tmp_path / 'fresh')).store
  assert (fresh.parameters == fresh.target_parameters).all()
  assert (fresh.parameters != target).any()
  moved = [bool(slot.any()) for slot in parts.store.slots]
  assert moved == ([True] if optimizer == 'shared_rmsprop' else [True] * 3)
  np.testing.assert_array_equal(
      parameters.flatten(saved.load_agent(str(tmp_path)).agent),
      parts.store.parameters)
  rows = _rows(config, tmp_path)
  assert [row['updates'] for row in rows] == list(range(1, len(rows) + 1))
  assert rows[6]['learning_rate'] == pytest.approx(
      0.01 * (1 - rows[6]['frames'] / 60))


def test_run_begins_with_another_ones_parameters_and_with_those_as_targets(
    tmp_path):
  config = _config(algorithm='n_step_q')
  source, new = str(tmp_path / 'source'), str(tmp_path / 'new')
  _rows(config, source)
  learner_state.write_first_checkpoint(config, new, source, 'newest')
  learned = parameters.flatten(saved.load_agent(source).agent)
  store = shared_parameters.Learner(config, new).store
  np.testing.assert_array_equal(store.parameters, learned)
  np.testing.assert_array_equal(store.target_parameters, learned)
  assert store.counts == (0, 0, 0) and not store.slots[0].any()
  with pytest.raises(config_lib.UserError, match="is of kind 'q'"):
    learner_state.write_first_checkpoint(
        _config(), str(tmp_path / 'other'), source, 'newest')


@pytest.mark.parametrize('optimizer, start, expected', [
    ('shared_rmsprop', 0., [0.]), ('shared_rmsprop', 1., [1.]),
    ('rmsprop', 0.5, [0.5] * 3), ('momentum_sgd', 1., [0.] * 3)])
def test_mean_squares_begin_where_the_config_says_and_momenta_at_0(
    tmp_path, optimizer, start, expected):
  config = _config(asynchronous={
      'optimizer': optimizer, 'initial_mean_square': start})
  slots = shared_parameters.Learner(config, str(tmp_path)).store.slots
  assert len(slots) == len(expected)
  for slot, value in zip(slots, expected):
    assert (slot == value).all()


def test_one_nan_spoils_one_return_and_no_parameter(tmp_path, monkeypatch):
  spoilt_catch.spoil_one_reward(monkeypatch)
  rows = _rows(_config(total_frames=90), tmp_path)
  assert rows[-1]['updates_skipped'] == 1
  # The first worker's first episode is the fourth segment, and counts.
  assert 'episode_return' not in rows[3] and rows[3]['episodes'] == 1
  assert all(abs(row['episode_return']) <= 1 for row in rows[4:])
  store = shared_parameters.Learner(_config(), str(tmp_path)).store
  assert np.isfinite(store.parameters).all()
  assert np.isfinite(store.slots[0]).all()


def test_run_without_a_finite_gradient_ends(tmp_path, monkeypatch):
  spoilt_catch.spoil_rewards(monkeypatch)
  config = _config(optimizer=config_lib.OptimizerConfig(max_skipped_updates=4))
  with pytest.raises(config_lib.UserError, match=(
      r'in a row were skipped.*\(.* of worker [012] of actor 0')):
    _rows(config, tmp_path)
  assert saved.load_agent(str(tmp_path)).num_frames == 19  # It is saved.


def test_last_row_has_the_frames_that_workers_added_meanwhile(tmp_path):
  parts = shared_parameters.Learner(_config(total_frames=20), str(tmp_path))

  def play():
    parts.store.add_frames(10, 100, {
        'worker': 'worker 0', 'lag': 3,
        'metrics': {'gradient_norm': 1., 'learning_rate': 0.}})

  def on_row(row):
    if row['frames'] == 10:
      play()  # And nobody plays on: these were the last.

  play()
  parts.learn(control_lib.LoopControl(), interfaces.Reports(on_row))
  assert [(row['frames'], row['policy_lag']) for row in metrics.read_rows(
      str(tmp_path))] == [(10, 3), (20, 3)]


def test_checkpoint_has_the_number_of_the_updates_that_it_holds(tmp_path):
  parts = shared_parameters.Learner(_config(), str(tmp_path))
  parts.store.set_counts(num_frames=20, num_updates=4)
  parts.save(3, None)  # Another update has come since the loop looked.
  assert run_directory.newest_checkpoint(str(tmp_path)) == 4


def test_learner_that_waits_for_records_knows_who_has_the_lock(
    tmp_path, monkeypatch):
  parts = shared_parameters.Learner(_config(), str(tmp_path))
  holder = store_lib.find([parts.store.table_name])
  causes = []
  monkeypatch.setattr(holder, 'sync_target', lambda: parts.learn(
      control_lib.LoopControl(lambda: bool(causes), on_wait=causes.append),
      interfaces.Reports()))
  holder.add_frames(20, 20, {})
  assert f'process {os.getpid()} has the lock' in causes[0]


def test_process_without_workers_is_refused():
  config = _config(actor=config_lib.ActorConfig(num_actors=2),
                   experiment=config_lib.ExperimentConfig(algorithm='a3c'))
  with pytest.raises(config_lib.ConfigError, match='no actor 2: .* 0 to 1;'):
    shared_parameters.run_actor(
        config, 'localhost:1', seed=0, task=2,
        control=control_lib.ActorControl())


@pytest.mark.parametrize('optimizer, num_processes, is_refused', [
    ('rmsprop', 4, True), ('rmsprop', 3, False), ('shared_rmsprop', 4, False)])
def test_workers_that_would_share_a_slot_of_their_own_are_refused(
    optimizer, num_processes, is_refused):
  config = _config(asynchronous={'optimizer': optimizer})
  words = 'num_workers to 4 or more, or ActorConfig.num_actors to 3 or fewer'
  with pytest.raises(config_lib.ConfigError, match=words) if is_refused else (
      contextlib.nullcontext()):
    a3c_workers.check_processes(config, 0, num_processes)


# Whole runs of the real command.


def _train(config, run_dir, *bindings):
  programs.run(
      'impala_tf', 'train', config, f'--run_dir={run_dir}',
      *(f'--gin_binding={b}' for b in bindings), timeout=3500, check=True)
  return metrics.read_rows(str(run_dir))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    'algorithm', ['a3c', 'one_step_q', 'one_step_sarsa', 'n_step_q'])
def test_catch_is_learned(algorithm, tmp_path):
  """Values play greedily: in training some workers explore for ever."""
  bindings = [] if algorithm == 'a3c' else [
      f'ExperimentConfig.algorithm = {algorithm!r}',
      'ExperimentConfig.total_frames = 150_000']
  last = _train('configs/a3c/catch.gin', tmp_path, *bindings)[-1]
  if not bindings:
    assert last['episode_return'] >= 0.95
    return
  assert evaluation.evaluate(
      saved.load_agent(str(tmp_path)).agent, catch.CatchEnvironment(10, 7),
      num_episodes=100, seed=0).returns == [1.] * 100


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_cart_pole_is_learned(tmp_path):
  """In two of three seeds; the policy may be lost again later."""
  best = [max(row.get('best_episode_return', 0) for row in _train(
      'configs/a3c/cartpole.gin', tmp_path / str(seed),
      f'ExperimentConfig.seed = {seed}')) for seed in (1, 2, 3)]
  assert sorted(best)[1] >= 450


def test_only_a3c_does_without_the_memory_of_another_machine():
  for algorithm in 'a3c', 'n_step_q':
    config = _config(algorithm)
    server = queue_lib.make_server(
        [config_table.make_table(config),
         reverb.Table.queue(
             'shared_parameters-another-boot/1/2/3', max_size=1)], None)
    address = f'localhost:{server.port}'
    if algorithm == 'a3c':
      assert a3c_workers.find_store(config, address) is None
    else:
      with pytest.raises(config_lib.ConfigError, match='run anywhere'):
        a3c_workers.find_store(config, address)
