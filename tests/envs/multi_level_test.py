"""Several levels in one batch: which environment plays which level."""

import collections
import contextlib
import io
import os
import re
import signal

import gymnasium
import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import catch
from impala_tf.envs import env_processes
from impala_tf.envs import factory
from impala_tf.envs import gym
from impala_tf.envs import minigrid
from impala_tf.envs import multi_level
from impala_tf.envs import serial
from impala_tf.envs import tmaze
from impala_tf.runtime import user_modules
from tests.fixtures import locks
from tests.fixtures import reports
from tests.fixtures import worker_environments

LEVELS = ('tmaze/1', 'tmaze/2', 'tmaze/3')
E = 7


@pytest.mark.parametrize('num_levels', [1, 3, 57])
@pytest.mark.parametrize('num_actors, num_envs', [
    (1, 57), (4, 16), (57, 1), (5, 32)])
def test_environments_are_shared_out_evenly(num_levels, num_actors, num_envs):
  counts = collections.Counter({i: 0 for i in range(num_levels)})
  for actor in range(num_actors):
    rows_seen = []
    for index, rows in multi_level.slots(
        num_levels, actor * num_envs, num_envs):
      rows_seen.extend(range(num_envs)[rows])
      counts[index] += len(range(num_envs)[rows])
    assert sorted(rows_seen) == list(range(num_envs))
  assert set(counts) == set(range(num_levels))
  assert max(counts.values()) - min(counts.values()) <= 1


def _make(level, num_envs, seed):
  return tmaze.TMazeEnvironment(int(level[-1]), num_envs, seed)


def _plays_as_alone(env, alone, num_steps, choose):
  """Steps a batch and its levels alone; compares their rows and channels."""
  timestep = env.reset()
  others = {index: other.reset() for index, other in alone.items()}
  num_ends = collections.Counter()
  for _ in range(num_steps):
    for index, other in alone.items():
      rows = env.level_index == index
      for mine, its in zip((*timestep, *env.side_channels),
                           (*others[index], *other.side_channels)):
        assert len(mine) == 0 or mine.dtype == its.dtype
        np.testing.assert_array_equal(mine[rows] if len(mine) else (), its)
      num_ends[index] += (timestep.step_type[rows] == 0).any()
    actions = choose()
    timestep = env.step(actions)
    others = {index: other.step(actions[env.level_index == index])
              for index, other in alone.items()}
  assert min(num_ends.values()) > 1  # The first is that of `reset`.


def test_neighbours_play_other_levels_each_as_if_alone_and_of_its_own_seeds():
  env = multi_level.MultiLevelEnvironment(
      'all three', LEVELS, E, seed=40, first_slot=5, make=_make)
  assert env.level_index.dtype == np.int32
  # Seven from number 5 on, over three levels.
  assert env.level_index.tolist() == [2, 0, 1, 2, 0, 1, 2]
  alone = {2: _make('tmaze/3', 3, 40), 0: _make('tmaze/1', 2, 43),
           1: _make('tmaze/2', 2, 45)}
  rng = np.random.default_rng(0)
  # Seldom up or down, so that the corridor's end is met and bumped into.
  _plays_as_alone(env, alone, 200, lambda: rng.choice(
      4, size=E, p=[.05, .5, .05, .4]).astype(np.int32))


def _atari(level, **options):
  return factory.make_environment(
      level, 1, 0, config.Config(atari=config.AtariConfig(**options)),
      training=True)


def _refused(level, other, words):
  with pytest.raises(config.ConfigError, match=words):
    multi_level.check_alike(level, other)


def test_levels_that_differ_are_refused_with_the_remedy():
  pong = _atari('atari/pong')
  _refused(pong, _atari('atari/breakout'),
           'atari/breakout has 4 actions and atari/pong 6 actions, .* set '
           'AtariConfig.full_action_set = True')
  _refused(pong, _atari('atari/qbert', width=40),
           r"atari/qbert has observations \('uint8', \(84, 40, 4\)\) and "
           r"atari/pong \('uint8', \(84, 84, 4\)\).* leave one of them out")
  pong.frame_stack = 1
  _refused(pong, _atari('atari/qbert'),
           'atari/qbert has stacked frames 4 and atari/pong 1')
  pendulum = gym.GymEnvironment('Pendulum-v1', 1, 0)
  _refused(pendulum, catch.CatchEnvironment(1, 0),
           r'catch has 3 actions and gym/Pendulum-v1 continuous actions')


class _Pusher(gymnasium.Env):
  """An environment that observes its last push, which has a bound."""

  def __init__(self, bound, seen=np.inf):
    self.observation_space = gymnasium.spaces.Box(-seen, seen, (1,), np.float32)
    self.action_space = gymnasium.spaces.Box(-bound, bound, (1,), np.float32)

  def reset(self, *, seed=None, options=None):
    return np.zeros(1, np.float32), {}

  def step(self, action):
    return action, 0., False, False, {}


@pytest.fixture(name='pushers')
def _pushers(modules_forgotten):
  """Registers levels whose actions have the bounds 1, 5 and none."""
  del modules_forgotten  # It forgets them at the end.
  bounds = {'One': 1., 'Five': 5., 'None': np.inf, 'Free': np.inf}
  for name, bound in bounds.items():
    gymnasium.register(f'{name}-v0', _Pusher, kwargs={'bound': bound})
  gymnasium.register('Wide-v0', _Pusher, kwargs={'bound': 1., 'seen': 9.})


@pytest.mark.usefixtures('pushers')
def test_levels_of_other_finite_bounds_are_each_scaled_to_them():
  both = _config('gym/One-v0,gym/Five-v0')
  probe = multi_level.make_probe(both)
  # No policy can give actions in the units of both.
  assert probe.interface['actions'] is None
  assert probe.interface['observations']
  for make in multi_level.make_environment, multi_level.make_for_policies:
    env = make(both, 2)
    env.reset()
    row = env.step(np.float32([[0.5], [0.5]]))
    assert row.observation.tolist() == [[0.5], [2.5]]


@pytest.mark.usefixtures('pushers')
def test_levels_of_other_spaces_keep_how_they_are_converted():
  probe = multi_level.make_probe(_config('gym/One-v0,gym/Wide-v0'))
  alone = multi_level.make_probe(_config('gym/One-v0')).interface
  assert probe.interface['observations'] == [None, *alone['observations'][1:]]


@pytest.mark.usefixtures('pushers')
def test_levels_without_bounds_are_named_together_and_mix_with_no_others():
  remark, = multi_level.make_probe(_config('gym/None-v0,gym/Free-v0')).remarks
  assert remark.startswith('gym/None-v0, gym/Free-v0: some actions lack a b')
  with pytest.raises(config.ConfigError, match='leave one of them out'):
    multi_level.make_probe(_config('gym/One-v0,gym/None-v0'))


def test_levels_with_other_side_channels_are_refused():
  masked = catch.CatchEnvironment(1, 0)
  masked.action_mask = np.ones([1, 3], np.uint8)
  _refused(masked, catch.CatchEnvironment(1, 0),
           r'catch has side channels none and catch action_mask \[3\], ')


def test_features_and_masks_are_those_of_each_level_by_itself():
  levels = (f'{locks.MODULE}:Locks-v0', 'Locks-v0')
  env = multi_level.MultiLevelEnvironment(
      'both', levels, 3, 7, 0, gym.GymEnvironment)
  assert len(env.features) == len(env.action_mask) == 3
  alone = {0: gym.GymEnvironment(levels[0], 2, 7),
           1: gym.GymEnvironment(levels[1], 1, 9)}
  _plays_as_alone(
      env, alone, 2 * locks.NUM_STEPS + 2,
      lambda: locks.legal_actions(env.action_mask))


@pytest.mark.parametrize('level', [
    'gym/InvertedPendulum-v5',
    'gym/InvertedPendulum-v5,gym/InvertedPendulum-v4'])
def test_environments_for_policies_take_the_simulators_units(level):
  scaled = multi_level.make_environment(_config(level), 2, 5)
  env = multi_level.make_for_policies(_config(level), 2, 5)
  env.reset(), scaled.reset()
  pushes = np.float32([[0.5], [-0.9]])
  row, its_row = env.step(3 * pushes), scaled.step(pushes)
  np.testing.assert_array_equal(row.observation, its_row.observation)


def _config(level, full_action_set=False):
  return config.Config(
      environment=config.EnvironmentConfig(level=level),
      atari=config.AtariConfig(full_action_set=full_action_set))


def test_levels_are_compared_one_after_another_and_closed():
  open_levels = []

  def make(level, num_envs, seed):
    env = (catch.CatchEnvironment(num_envs, seed) if level == 'catch' else
           _make(level, num_envs, seed))
    assert not open_levels  # There may be one licence for all.
    open_levels.append(level)
    env.close = lambda: open_levels.remove(level)
    return env

  probe = multi_level.make_probe(_config('tmaze/1,tmaze/2'), make)
  assert probe.level == 'tmaze/1'
  with pytest.raises(config.ConfigError, match='catch has 3 actions and tmaze'):
    multi_level.make_probe(
        _config('tmaze/1,tmaze/2,catch', full_action_set=True), make)
  assert not open_levels


def test_only_levels_that_may_differ_are_started_for_it():
  started = []

  def make(level, num_envs, seed):
    started.append(level)
    return _make('tmaze/1', num_envs, seed)

  two_games = 'atari/pong,atari/skiing'
  multi_level.make_probe(_config('dmlab30'), make)
  multi_level.make_probe(_config(two_games, full_action_set=True), make)
  multi_level.make_probe(_config(two_games), make)
  first, *games = started
  assert first.startswith('dmlab30/')
  assert games == ['atari/pong', 'atari/pong', 'atari/skiing']


def test_instructions_are_those_of_each_level_by_itself():

  def make(level, num_envs, seed):
    return minigrid.MinigridEnvironment(
        level, num_envs, seed, 'babyai', instruction_length=4)

  levels = ('GoToLocalS5N2-v0', 'GoToObjS4-v0')
  env = multi_level.MultiLevelEnvironment('both', levels, 5, 7, 1, make)
  alone = {1: make(levels[1], 3, 7), 0: make(levels[0], 2, 10)}
  assert env.instruction.shape == (5, 4)
  rng = np.random.default_rng(0)
  _plays_as_alone(
      env, alone, 60, lambda: rng.integers(3, size=5).astype(np.int32))
  # "go to the red ball" has five words.
  assert env.num_instructions_cut == sum(
      other.num_instructions_cut for other in alone.values()) > 5


def test_workers_play_what_their_slots_say():
  pool = multi_level.make_workers(
      ','.join(LEVELS), seed=40, first_slot=5, make=_make,
      config=config.ActorConfig(num_envs=E, env_processes=2))
  with contextlib.closing(pool):
    assert pool.level_index.tolist() == [2, 0, 1, 2, 0, 1, 2]
    numbers, timestep = pool.recv(min_ready=E)
    wanted = [_make(LEVELS[pool.level_index[i]], 1, 40 + i).reset()
              for i in numbers]
    np.testing.assert_array_equal(
        timestep.observation, [row.observation[0] for row in wanted])


def _kill_at_last_level(name, num_envs, seed):
  if name == LEVELS[-1]:
    os.kill(os.getpid(), signal.SIGKILL)
  return _make(name, num_envs, seed)


def test_level_whose_simulator_ends_its_process_is_named():
  with pytest.raises(env_processes.WorkerError, match=(
      rf'environment 2 \({re.escape(LEVELS[-1])}\): its process was killed')):
    multi_level.make_workers(
        ','.join(LEVELS), seed=40, first_slot=0, make=_kill_at_last_level,
        config=config.ActorConfig(num_envs=3, env_processes=3))


def test_environment_is_played_as_its_domains_section_says(fake_deepmind_lab):
  for level, shape in (('atari/pong', (40, 44, 4)),
                       ('dmlab30/rooms_watermaze', (48, 52, 3)),
                       ('vizdoom/basic', (120, 160, 3))):
    settings = config.Config(
        environment=config.EnvironmentConfig(level=level),
        atari=config.AtariConfig(height=40, width=44, action_repeats=2),
        dmlab=config.DmlabConfig(height=48, width=52, action_repeats=2),
        vizdoom=config.VizdoomConfig(subsample=1, action_repeats=2))
    environment = multi_level.make_environment(settings, 1, 0, training=True)
    assert environment.observation_spec().shape == shape
    assert environment.frames_per_step == 2
    environment.close()
  multi_level.make_environment('dmlab30/rooms_watermaze').close()
  assert 'mixerSeed' in fake_deepmind_lab.labs[-1].config


def test_level_can_be_made_by_its_name_and_for_other_slots():
  environment = multi_level.make_environment('catch', num_envs=2)
  assert type(environment) is catch.CatchEnvironment
  assert environment.reset().observation.shape == (2, 10, 5)
  assert environment.level_index.tolist() == [0, 0]
  environment.close()
  both = multi_level.make_environment('tmaze/1,tmaze/2', first_slot=1)
  assert type(both) is multi_level.MultiLevelEnvironment
  assert both.level_index.tolist() == [1]


def _report_config(**options):
  return config.Config(
      environment=config.EnvironmentConfig(
          level=','.join(reports.LEVELS), episode_metrics='score, won',
          **options),
      actor=config.ActorConfig(num_envs=2, env_processes=2))


@pytest.mark.usefixtures('modules_forgotten')
def test_numbers_of_episodes_come_from_each_level():
  user_modules.load([reports.MODULE])
  env = multi_level.make_environment(_report_config(reward_scale=.5), 2)
  env.reset()
  for _ in range(2):
    timestep = env.step(np.zeros(2, np.int32))
  np.testing.assert_array_equal(env.episode_metrics, [[0, 1], [100, 1]])
  # The factor is for those who hand rewards to agents.
  assert timestep.reward.tolist() == [2., 2.] and env.reward_scale == .5


@pytest.mark.usefixtures('modules_forgotten')
def test_numbers_of_episodes_come_from_processes():
  user_modules.load([reports.MODULE])
  settings = _report_config(reward_scale=.5)
  workers = multi_level.make_workers(
      settings.environment.level, 0, 0,
      multi_level.make_level(settings, training=True), settings.actor)
  with contextlib.closing(workers):
    assert workers.reward_scale == .5
    for _ in range(3):  # Their resets and two steps.
      numbers, _ = workers.recv(2)
      workers.send(numbers, np.zeros(2, np.int32))
    found = workers.side_channels.episode_metrics[np.argsort(numbers)]
  np.testing.assert_array_equal(found, [[0, 1], [100, 1]])


@pytest.mark.parametrize('first', [0, 12])
def test_numbers_are_of_the_run_whoever_makes_the_environments(
    first, monkeypatch):
  made = []

  def make(level, num_envs, seed):
    def make_one(i, seed):
      del i, seed
      made.append((level, int(os.environ['IMPALA_TF_ENV_INDEX'])))
      return io.StringIO()  # It can be closed.

    serial.Simulators(make_one, num_envs, seed).close()
    return worker_environments.Ticking(num_envs)

  multi_level.MultiLevelEnvironment('both', ['a', 'b'], 5, 0, first, make)
  assert sorted(made, key=lambda pair: pair[1]) == [
      (level, first + i) for i, level in enumerate('ababa')]
  made.clear()
  monkeypatch.setattr(multi_level, 'make_level', lambda config, training: make)
  multi_level.make_environment('catch', 2, first_slot=first)
  assert made == [('catch', first), ('catch', first + 1)]
  assert 'IMPALA_TF_ENV_INDEX' not in os.environ


def test_numbers_reach_environment_processes():
  workers = multi_level.make_workers(
      'a', 0, 12, worker_environments.numbered,
      config.ActorConfig(num_envs=3, env_processes=2))
  with contextlib.closing(workers):
    numbers, timestep = workers.recv(min_ready=3)
    assert (timestep.reward == 12 + numbers).all()
