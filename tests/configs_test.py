"""Every .gin file is parsed, built and run for two updates."""

import math
import pathlib

import pytest

from impala_tf.algorithms import table as algorithms
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.suites import levels as levels_lib
from tests.fixtures import hosts

_ROOT = pathlib.Path(__file__).resolve().parent.parent
# See tests/cli/sweep_test.py and population_test.py.
_OTHERS = ('sweeps', 'populations')
_FILES = sorted(p.relative_to(_ROOT).as_posix()
                for p in (_ROOT / 'configs').rglob('*.gin')
                if p.parent.name not in _OTHERS)

pytestmark = pytest.mark.usefixtures('servers_stay', 'fake_deepmind_lab')

# As small as it gets: the test is of the file, not of the machine.
_TINY = ('ExperimentConfig.in_process = True',
         'ExperimentConfig.log_interval_updates = 1',
         'ExperimentConfig.total_frames = 2',
         'LearnerConfig.batch_size = 8',  # LASER replays 7 of 8.
         'LearnerConfig.unroll_length = 2',
         'LearnerConfig.queue_capacity = 2',
         'ActorConfig.num_envs = 2',
         'ActorConfig.env_processes = None',
         'AsyncConfig.num_workers = 2',
         'AsyncConfig.max_segment_steps = 2')
# Batched A2C wants an environment for each unroll.
_TINY_A2C = (*_TINY, 'ActorConfig.num_envs = 8')
_SEVERAL_LEVELS = ('configs/atari57/multitask.gin',
                   'configs/atari57/multitask_popart.gin',
                   'configs/atari57/seven_games.gin',
                   'configs/atari57/seven_games_popart.gin',
                   'configs/dmlab30/multitask_deep.gin',
                   'configs/dmlab30/multitask_shallow.gin',
                   'configs/laser/dmlab30.gin',
                   'configs/tasks/catch_two_scales.gin')


def test_a3c_has_the_papers_numbers():
  """Mnih et al. 2016, sections 5.1, 7 to 9; the last four by its authors."""
  config = gin_config.load('configs/a3c/a3c.gin')
  options = config.asynchronous
  assert (options.num_workers, options.max_segment_steps, options.optimizer,
          options.target_interval_frames, options.epsilon_anneal_frames) == (
              16, 5, 'shared_rmsprop', 40_000, 4_000_000)
  assert (config.impala.discount, config.impala.entropy_cost) == (0.99, 0.01)
  assert (config.optimizer.decay, config.optimizer.annealed) == (0.99, True)
  assert (config.atari.action_repeats, config.atari.frame_stack,
          config.atari.width, config.atari.height) == (4, 4, 84, 84)
  assert (config.optimizer.learning_rate, config.optimizer.epsilon,
          config.optimizer.max_gradient_norm, config.impala.baseline_cost) == (
              7e-4, 0.1, 40, 0.5)
  agents = {name: gin_config.load(f'configs/a3c/{name}.gin').agent for name in (
      'a3c', 'a3c_lstm', 'one_step_q', 'pendulum')}
  assert {name: (agent.torso, agent.hidden_size, agent.use_lstm
                 and agent.lstm_size) for name, agent in agents.items()} == {
      'a3c': ('nature', 512, False), 'a3c_lstm': ('nature', 512, 256),
      'one_step_q': ('shallow', 256, False), 'pendulum': ('dense', 200, 128)}
  continuous = gin_config.load('configs/a3c/pendulum.gin')
  assert continuous.impala.entropy_cost == 1e-4
  assert continuous.asynchronous.max_segment_steps is None


@pytest.mark.parametrize('path', [
    f for f in _FILES if f not in _SEVERAL_LEVELS])
@pytest.mark.slow
def test_file_trains_for_two_updates(path, tmp_path):
  tiny = _TINY_A2C if '/a2c/' in path else _TINY
  config = gin_config.load(path, tiny)
  domain = config.environment.level.split('/')[0]
  repeats = {'atari': config.atari.action_repeats,
             'dmlab': config.dmlab.action_repeats,
             'dmlab30': config.dmlab.action_repeats,
             'vizdoom': config.vizdoom.action_repeats}.get(domain, 1)
  is_shared = algorithms.architecture(config) == algorithms.SHARED_PARAMETERS
  frames_per_update = (1 if is_shared else config.num_fresh) * 2 * repeats
  config = gin_config.load(path, tiny + (
      f'ExperimentConfig.total_frames = {2 * frames_per_update}',))
  hosts.run_in_process(config, tmp_path)
  rows = metrics.read_rows(str(tmp_path))
  assert [row['updates'] for row in rows] == [2] if is_shared else [1, 2]
  assert rows[-1]['frames'] == 2 * frames_per_update


def _marks_of_several(path):
  if '/tasks/' in path:
    return []
  is_large = 'atari57/multitask' in path
  return pytest.mark.nightly if is_large else pytest.mark.slow


@pytest.mark.timeout(900)  # Starts and resets 57 emulators.
@pytest.mark.parametrize('path', [
    pytest.param(f, marks=_marks_of_several(f)) for f in _SEVERAL_LEVELS])
def test_every_level_of_the_file_trains_for_three_updates(path, tmp_path):
  config = gin_config.load(path, ())
  levels = levels_lib.expand(config.environment.level)
  frames = 2 * (1 if '/tasks/' in path else 4)  # Of an unroll.
  # A batch holds a new unroll of each.
  batch_size = round(len(levels) / (1 - config.replay.replay_fraction))
  config = gin_config.load(path, _TINY + (
      f'ActorConfig.num_envs = {len(levels)}',
      f'LearnerConfig.batch_size = {batch_size}',
      f'ExperimentConfig.total_frames = {3 * len(levels) * frames}',
      'DmlabConfig.dataset_path = "dummy"'))
  hosts.run_in_process(config, tmp_path)
  rows = metrics.read_rows(str(tmp_path))
  assert [row['updates'] for row in rows] == [1, 2, 3]
  for row in rows:
    assert math.isfinite(row['loss/total'])
    assert {row[f'level/{level}/frames'] for level in levels} == {
        row['updates'] * frames}


def test_files_of_several_levels_are_whole():
  sizes = {path: len(levels_lib.expand(gin_config.load(path).environment.level))
           for path in _FILES}
  assert {p: n for p, n in sizes.items() if n > 1} == dict(
      zip(_SEVERAL_LEVELS, (57, 57, 7, 7, 30, 30, 30, 2)))
  for path in _SEVERAL_LEVELS:  # Each level has its share in each process.
    config = gin_config.load(path)
    assert config.actor.num_envs % sizes[path] == 0
    if 'atari57' in path:
      assert config.atari.full_action_set


@pytest.mark.parametrize('path', [
    f for f in _FILES
    if any(d in f for d in (
        '/a2c/', '/a3c/', '/atari/', '/atari57/', '/laser/', '/tasks/',
        '/dmlab30/', '/vizdoom/', '/mujoco/', '/control/'))])
def test_header_says_what_to_expect(path):
  header = (_ROOT / path).read_text().split('from __gin__')[0]
  purpose = 'Stands for' if '/tasks/' in path else 'Reproduces'
  for word in (purpose, 'Frames', 'Hardware', 'Score to expect'):
    assert word in header


@pytest.mark.parametrize('path', [
    f for f in _FILES if '/tasks/' in f or '/laser/' in f])
def test_those_of_one_process_lag_alike(path):
  config = gin_config.load(path, ())
  assert config.experiment.in_process or '/tasks/' not in path
  if config.experiment.in_process:
    assert config.actor.num_envs == 8 * config.num_fresh
