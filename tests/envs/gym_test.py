"""Gymnasium environments: small ones with every kind of end and mistake."""

import ctypes.util
import os
import sys

import dm_env
import gymnasium
import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import environment
from impala_tf.envs import factory
from impala_tf.envs import gym
from impala_tf.runs import metrics
from impala_tf.runs import video
from tests.fixtures import locks
from tests.fixtures import programs
from tests.fixtures import reports

FIRST, MID, LAST = dm_env.StepType


class _Counter(gymnasium.Env):
  """An environment that counts actions and ends in a way for some of them."""

  metadata = {'render_modes': ['rgb_array'], 'render_fps': 30}
  made = []  # All of a test.

  def __init__(self, render_mode=None, dtype=np.float64):
    _Counter.made.append(self)
    self.render_mode = render_mode
    self.action_space = gymnasium.spaces.Discrete(5, start=-1)
    self.observation_space = gymnasium.spaces.Box(0, 200, (2,), dtype)
    self._dtype = np.dtype(dtype)

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self._seed = seed
    self._steps = 0
    return self._observe(), {}

  def step(self, action):
    assert self.action_space.contains(action)
    self._steps += 1
    terminated, truncated = action in (1, 3), action in (2, 3)
    return self._observe(), float(action), terminated, truncated, {}

  def _observe(self):
    return np.array([self._steps, self._seed or 0], self._dtype)

  def render(self):
    return np.full((4, 6, 3), self._steps, np.uint8)


_MOVES = {
    'Bounded': gymnasium.spaces.Box(
        np.array([-1., 0.]), np.array([2., 0.5]), dtype=np.float64),
    'Unbounded': gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32),
    'Integers': gymnasium.spaces.Box(0, 4, (3,), np.int32),
    'Choices': gymnasium.spaces.MultiDiscrete([3, 2], dtype=np.uint8),
    'Matrix': gymnasium.spaces.Box(-1, 1, (2, 2), np.float32)}


class _Moves(_Counter):
  """An environment that observes its last action and pays for its sum."""

  def __init__(self, kind, render_mode=None):
    super().__init__(render_mode)
    self.action_space = _MOVES[kind]
    self.observation_space = gymnasium.spaces.Box(
        -np.inf, np.inf, (2,), np.float64)

  def step(self, action):
    assert self.action_space.contains(action)
    return action.astype(float), float(action.sum()), False, False, {}


class _Masked(_Counter):
  """An environment with a mask at each step; 2 ends it, and 0 cuts it off.

  Attributes:
    after: mask of the next steps; None for none.
  """

  def __init__(self, render_mode=None, action_space=None):
    super().__init__(render_mode)
    self.action_space = action_space or gymnasium.spaces.Discrete(3)
    self.after = [1, 1, 1]

  def reset(self, **kwargs):
    return super().reset(**kwargs)[0], {'action_mask': np.int8([0, 1, 1])}

  def step(self, action):
    observation, reward, _, _, _ = super().step(action)
    info = {} if self.after is None else {'action_mask': self.after}
    return observation, reward, bool(action == 2), bool(action == 0), info


class _Reporting(_Counter):
  """An environment that ends with each action and returns a given `info`."""

  def __init__(self, render_mode=None, infos=()):
    super().__init__(render_mode)
    self._infos = iter(infos)

  def step(self, action):
    return (*super().step(action)[:4], next(self._infos))


class _NoReset(_Counter):
  """An environment without a speed, the second of which cannot be reset."""

  metadata = {'render_modes': ['rgb_array'], 'render_fps': None}
  is_open = True

  def reset(self, **kwargs):
    if len(self.made) == 2:
      raise KeyError('no\nmap')
    return super().reset(**kwargs)

  def close(self):
    self.is_open = False


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
  monkeypatch.setattr(gymnasium, 'registry', dict(gymnasium.registry))
  monkeypatch.setattr(
      gymnasium.envs.registration, 'registry', gymnasium.registry)
  monkeypatch.setattr(_Counter, 'made', [])
  for kind in _MOVES:
    gymnasium.register(f'Moves-{kind}-v0', _Moves, kwargs={'kind': kind})
  gymnasium.register('Counter-v0', _Counter)
  gymnasium.register('Masked-v0', _Masked)
  gymnasium.register('No-Reset-v0', _NoReset)
  gymnasium.register('Moves-Masked-v0', _Masked,
                     kwargs={'action_space': _MOVES['Unbounded']})
  gymnasium.register('Reporting-v0', _Reporting)


def _begun(env_id, num_envs, seed=0, **options):
  env = gym.GymEnvironment(env_id, num_envs, seed, **options)
  env.reset()
  return env


def test_environment_i_has_seed_plus_i_and_only_the_first_reset_seeds():
  env = gym.GymEnvironment('Counter-v0', 3, seed=7)
  assert env.reset().observation[:, 1].tolist() == [7, 8, 9]
  assert env.reset().observation[:, 1].tolist() == [0, 0, 0]


@pytest.mark.parametrize('kind, seen', [
    ('Bounded', [[0.875, 0.5], [-1, 0]]),
    ('Unbounded', [[0.25, 3], [-1e6, -1]])])
def test_vectors_reach_the_environment_in_its_unit(kind, seen):
  env = gym.GymEnvironment(f'Moves-{kind}-v0', 2, seed=0)
  space, spec = _MOVES[kind], env.action_spec()
  assert spec.dtype == np.float32
  np.testing.assert_array_equal(spec.minimum, space.low)
  np.testing.assert_array_equal(spec.maximum, space.high)
  env.reset()
  row = env.step(np.array([[0.25, 3], [-1e6, -1]], np.float32))
  np.testing.assert_array_equal(row.observation, np.float32(seen))
  np.testing.assert_array_equal(row.reward, np.sum(np.float32(seen), axis=1))


def test_missing_mujoco_is_named_with_the_extra(monkeypatch):
  for name in list(sys.modules):
    if name.startswith('gymnasium.envs.mujoco'):
      monkeypatch.delitem(sys.modules, name)
  monkeypatch.setitem(sys.modules, 'mujoco', None)
  with pytest.raises(config.ConfigError, match=r"'impala_tf\[mujoco\]'"):
    gym.GymEnvironment('InvertedPendulum-v5', 2, seed=0)


def test_arguments_reach_the_constructor():
  env = gym.GymEnvironment('Counter-v0', 2, seed=0, kwargs={'dtype': 'uint8'})
  assert env.reset().observation.dtype == np.uint8
  env = factory.make_environment(
      'gym/Moves-Matrix-v0', 2, 3, config.Config(
          environment=config.EnvironmentConfig(kwargs={'kind': 'Bounded'})),
      training=True)
  assert env.action_spec().shape == (2,)


@pytest.mark.parametrize('kwargs, words', [
    ({'dtpye': 'uint8'}, "unexpected keyword argument 'dtpye'"),
    ({'dtype': []}, r'gym_test.py, line [0-9]+: ValueError: ')])
def test_arguments_that_the_constructor_has_not_are_refused(kwargs, words):
  with pytest.raises(config.ConfigError, match=words) as error:
    gym.GymEnvironment('Counter-v0', 2, seed=0, kwargs=kwargs)
  assert str(kwargs) in str(error.value)
  assert 'was raised' not in str(error.value)


def test_reset_that_fails_is_one_line_and_leaves_nothing_open():
  # It has no speed either.
  assert gym.GymEnvironment('No-Reset-v0', 1, seed=0).frames_per_sec == 60
  _Counter.made.clear()
  with pytest.raises(config.ConfigError, match=(
      r'^gym/No-Reset-v0 cannot be reset .*: .*gym_test.py, line [0-9]+: '
      'KeyError: ')):
    gym.GymEnvironment('No-Reset-v0', 2, seed=0)
  assert [env.is_open for env in _Counter.made] == [False, False]


def test_picture_is_of_environment_0():
  env = _begun('Counter-v0', 2)
  for actions in [1, 1], [1, 2]:
    env.step(np.array(actions, np.int32))
  np.testing.assert_array_equal(env.render(), np.full((4, 6, 3), 2, np.uint8))
  ends = []
  env.on_termination = lambda: ends.append(env.render()[0, 0, 0])
  env.step(np.array([2, 0], np.int32))
  assert ends == [3] and env.render()[0, 0, 0] == 0


def test_own_constructor_and_another_name():
  def make(seed, factor):
    return gymnasium.wrappers.TransformReward(
        gymnasium.make('Counter-v0'), lambda r: factor * r + seed)

  env = gym.GymEnvironment('Counter-v0', 2, seed=0, level='other/name',
                           kwargs={'factor': 10}, make=make)
  assert env.level == 'other/name'
  env.reset()
  assert env.step(np.array([0, 1], np.int32)).reward.tolist() == [-10, 1]
  with pytest.raises(config.ConfigError, match='other/name cannot be made'):
    gym.GymEnvironment('Countr-v0', 2, seed=0, level='other/name')


@pytest.mark.parametrize('env_id, message', [
    ('CartPol-v1', 'Did you mean: `CartPole`'),
    ('LunarLander-v2', 'deprecated'),
    ('no_such_module:Foo-v0', 'No module named'),
    ('Moves-Integers-v0', r'actions of type Box \[3\] of int32, but only '),
    ('Moves-Masked-v0', r'a mask of actions of type Box \[2\] of float32, but '
     'only one of Discrete or MultiDiscrete'),
])
def test_what_cannot_be_played_is_refused_with_the_cause(env_id, message):
  with pytest.raises(config.ConfigError, match=message) as error:
    gym.GymEnvironment(env_id, 2, seed=0)
  assert f'gym/{env_id}' in str(error.value)


# Nested observations, several choices, masks.


def test_locks_are_seen_whole_and_opened():
  """Dict and Tuple, `start`s and masks, through ends of both kinds."""
  env = gym.GymEnvironment('Locks-v0', 2, seed=3)
  assert env.action_spec() == environment.multi_discrete(locks.NVEC)
  assert env.observation_spec().shape == (locks.SIZE, locks.SIZE, 1)
  row = env.reset()
  ends = []
  for t in range(1, 2 * locks.NUM_STEPS + 2):
    quarters = row.observation.reshape(2, 2, locks.SIZE // 2, 2, -1)
    quarter = np.argmax(quarters.mean(axis=(2, 4)).reshape(2, 4), axis=1)
    colour = np.argmax(env.features[:, :3], axis=1)
    is_high = env.features[:, 3] > locks.FAR
    right = np.stack([quarter, (colour + is_high) % 3], axis=1)
    assert np.take_along_axis(
        env.action_mask, right + [0, locks.NVEC[0]], axis=1).all()
    row = env.step(right.astype(np.int32))
    ends += [(t, s, d) for s, d in zip(row.step_type, row.discount) if s != MID]
    np.testing.assert_array_equal(row.reward, t != locks.NUM_STEPS + 1)
  assert ends == [
      *[(locks.NUM_STEPS, LAST, 1)] * 2, *[(locks.NUM_STEPS + 1, FIRST, 1)] * 2,
      *[(2 * locks.NUM_STEPS + 1, FIRST, 0)] * 2]


def test_mask_of_an_end_is_that_of_the_next_episode():
  env = _begun('Masked-v0', 2)
  assert env.action_mask.tolist() == [[0, 1, 1]] * 2  # Of a reset.
  env.step(np.array([1, 2], np.int32))  # 2 ends the episode.
  assert env.action_mask.tolist() == [[1, 1, 1], [0, 1, 1]]
  env.reset()
  assert env.action_mask.tolist() == [[0, 1, 1]] * 2


def test_mask_of_a_cut_off_end_is_its_own_if_it_has_one(capsys):
  env = _begun('Masked-v0', 2)
  for mask in [1, 1, 0], None, [], [0, 0, 0]:
    _Counter.made[0].after = mask
    assert env.step(np.array([0, 1], np.int32)).step_type[0] == LAST
    assert env.action_mask.tolist() == [
        [1, 1, 0] if mask == [1, 1, 0] else [0, 1, 1], [1, 1, 1]]
    env.step(np.array([1, 1], np.int32))  # Begins anew.
  assert not capsys.readouterr().err


@pytest.mark.parametrize('after, words', [
    (None, 'is missing'), ([1, 1], 'has 2 entries and not 3')])
def test_mask_that_says_nothing_names_its_environment(after, words):
  env = _begun('Masked-v0', 2)
  _Counter.made[1].after = after
  with pytest.raises(config.UserError, match=words) as error:
    env.step(np.array([1, 1], np.int32))
  assert str(error.value).startswith(
      'gym/Masked-v0: the action_mask of environment 1 ')


def test_mask_that_allows_nothing_is_noted_once_and_allows_all(capsys):
  env = _begun('Masked-v0', 2)
  _Counter.made[1].after = [0, 0, 0]
  for _ in range(2):
    env.step(np.array([1, 1], np.int32))
    assert env.action_mask.tolist() == [[1, 1, 1], [1, 1, 1]]
  line, = capsys.readouterr().err.splitlines()
  assert line.startswith(
      'note: gym/Masked-v0: the action_mask of environment 1 allows no action')
  _Counter.made[1].after = [0, 0, 1]
  env.step(np.array([1, 1], np.int32))
  assert env.action_mask[1].tolist() == [0, 0, 1]


class _Elsewhere(_Counter):
  """An environment with a mask in its observation, or by a method."""

  def __init__(self, render_mode=None, where='dict', moves=False):
    super().__init__(render_mode)
    self.action_space = _MOVES['Unbounded'] if moves else (
        gymnasium.spaces.MultiDiscrete([2, 3]))
    self._mask = gymnasium.spaces.MultiBinary(5)
    if where == 'dict':
      self.observation_space = gymnasium.spaces.Dict(
          observation=self.observation_space, action_mask=self._mask)
    else:
      self.action_masks = lambda: self._legal

  def _observe(self):
    self._legal = np.roll(np.int8([1, 0, 1, 0, 0]), self._steps % 2)
    if isinstance(self.observation_space, gymnasium.spaces.Dict):
      return {'observation': super()._observe(), 'action_mask': self._legal}
    return super()._observe()

  def step(self, action):
    self._steps += 1
    return self._observe(), 0., False, False, {}


@pytest.mark.parametrize('where', ['dict', 'method'])
def test_masks_are_found_where_other_libraries_have_them(where):
  kwargs = {'where': where}
  gymnasium.register('Elsewhere-v0', _Elsewhere)
  env = gym.GymEnvironment('Elsewhere-v0', 2, seed=0, kwargs=kwargs)
  assert env.observation_spec().shape == (2,)
  env.reset()
  assert env.action_mask.tolist() == [[1, 0, 1, 0, 0]] * 2
  env.step(np.zeros([2, 2], np.int32))
  assert env.action_mask.tolist() == [[0, 1, 0, 1, 0]] * 2
  # Neither in runs from before, nor if actions are continuous.
  for options in ({'converted': False, 'kwargs': kwargs},
                  {'kwargs': {**kwargs, 'moves': True}}):
    env = gym.GymEnvironment('Elsewhere-v0', 2, seed=0, **options)
    assert env.action_mask == ()
    assert env.observation_spec().shape == ((7,) if where == 'dict' else (2,))


# What simulators return.


def _returning(**returned):
  """Makes two Counters of which the second returns something else."""
  env = gym.GymEnvironment(
      'Counter-v0', 2, seed=0, make=lambda seed: _Counter())
  env.reset()
  names = 'observation', 'reward', 'terminated', 'truncated', 'info'
  counter = _Counter.made[1]
  row = dict(zip(names, counter.step(0)))
  counter.step = lambda action: tuple({**row, **returned}.values())
  return env


@pytest.mark.parametrize('returned, words', [
    ({'observation': np.zeros((1, 2))},
     r'the observation of environment 1 \(step 1\) must be Box \[2\] of '
     r'float64, but is float64 \[1, 2\]'),
    ({'observation': None}, 'but is a NoneType'),
    ({'reward': np.array([1., 2.])},
     r'the reward of environment 1 .* must be one number, but is array\('),
    ({'reward': '1.5'}, "must be one number, but is '1.5'"),
    ({'one': 'more'}, 'step of environment 1 .* must return 5 .* many val')])
def test_what_is_no_row_is_refused_as_it_comes(returned, words):
  env = _returning(**returned)
  with pytest.raises(config.UserError, match=f'^gym/Counter-v0: .*{words}'):
    env.step(np.array([1, 1], np.int32))


def test_old_row_of_four_is_refused_within_wrappers_too():
  env = _begun('Counter-v0', 1)
  _Counter.made[0].step = lambda action: (np.zeros(2), 0., False, {})
  with pytest.raises(config.UserError, match='5 values .*expected 5, got 4'):
    env.step(np.array([1], np.int32))


@pytest.mark.parametrize('reward', [2, np.float16(2), [2.]])
def test_reward_of_any_numeric_type_is_a_number(reward):
  env = _returning(reward=reward, terminated=None, observation=[1, 2])
  row = env.step(np.array([1, 1], np.int32))
  assert row.reward.tolist() == [0, 2] and row.observation[1].tolist() == [1, 2]


@pytest.mark.parametrize('what, value', [
    ('reward', np.inf), ('reward', 1e39), ('observation', [0, np.nan])])
def test_number_that_is_not_finite_is_noted_once_with_its_environment(
    what, value, capsys):
  env = _returning(**{what: value})
  for _ in range(2):
    env.step(np.array([1, 1], np.int32))
  line, = capsys.readouterr().err.splitlines()
  assert line.startswith(
      f'note: gym/Counter-v0: the {what} of environment 1 is not finite')


def test_picture_of_floats_is_as_bright_as_one_of_bytes():
  env = gym.GymEnvironment('Counter-v0', 1, seed=0)
  _Counter.made[0].render = lambda: np.full((4, 6, 3), 1., np.float32)
  np.testing.assert_array_equal(env.render(), 255)
  _Counter.made[0].render = lambda: np.full((4, 6, 3), 9., np.float64)
  np.testing.assert_array_equal(env.render(), 9)


def test_remarks_name_wrappers_with_statistics_and_unbounded_actions():
  wrappers = gymnasium.wrappers
  env = gym.GymEnvironment(
      'Counter-v0', 2, seed=0, make=lambda seed: wrappers.TransformReward(
          wrappers.NormalizeReward(wrappers.NormalizeObservation(
              gymnasium.make('Counter-v0'))), lambda r: r))
  reward, observation = env.remarks
  assert 'NormalizeReward' in reward and 'NormalizeObservation' in observation
  assert not gym.GymEnvironment('Counter-v0', 2, seed=0).remarks
  for kind, number in ('Unbounded', 1), ('Bounded', 0):
    env = factory.make_environment(
        f'gym/Moves-{kind}-v0', 1, 0, config.Config(), training=True)
    assert len(env.remarks) == number


@pytest.mark.parametrize('values, numbers', [
    ([None, 3], [None, 3]), ([np.zeros(2), np.zeros(7)], [None, None]),
    ([3, 'three'], [3, None]), ([{'x': 1}, [[]]], [None, None]),
    ([np.float64(1), np.ones(1)], [1, 1]), ([True, np.nan], [1, None]),
    ([10**400, -1], [None, -1])])
def test_info_may_change_its_values_and_only_numbers_are_kept(
    values, numbers, capsys):
  infos = [{'x': value, str(i): value} for i, value in enumerate(values)]
  env = gym.GymEnvironment('Reporting-v0', 1, 0, kwargs={'infos': infos},
                           episode_metric_names=['x', '1'])
  env.reset()
  kept = []
  for _ in values:
    assert env.step(np.array([2], np.int32)).step_type == FIRST
    kept.append(env.episode_metrics[0].copy())
  first, second = (
      metrics.MISSING if number is None else number for number in numbers)
  np.testing.assert_array_equal(
      kept, [[first, metrics.MISSING], [second, second]])
  assert capsys.readouterr().err == (
      "note: gym/Reporting-v0: an episode ended without '1' of "
      'EnvironmentConfig.episode_metrics; its info has x, 0\n')


def test_masks_that_only_steps_bring_are_ignored_with_a_note(capsys):
  env = _begun('Reporting-v0', 1, kwargs={'infos': [{'action_mask': [0, 1]}]})
  env.step(np.zeros(1, np.int32))
  assert ('note: gym/Reporting-v0: action_mask in the info is ignored'
          in capsys.readouterr().err)


def test_numbers_of_an_episode_are_there_where_the_next_begins():
  env = gym.GymEnvironment(
      f'{reports.MODULE}:Reports-v0', 2, 0, episode_metric_names=['score'])
  env.reset()
  rows = []
  for _ in range(6):
    step = env.step(np.zeros(2, np.int32))
    rows.append((step.step_type[0], env.side_channels.episode_metrics[0, 0]))
  none = metrics.MISSING
  # Of a time limit they are there one row before.
  assert rows == [
      (MID, none), (FIRST, 0), (MID, 0), (LAST, 1), (FIRST, 1), (MID, 1)]


# Constructors and failures of a user's own environments.


class _Own(gymnasium.Env):
  """An environment whose constructor takes nothing, and that draws nothing."""

  metadata = {'render_modes': []}
  observation_space = gymnasium.spaces.Box(-9, 9, (3,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)

  def __init__(self):
    self.index = os.environ['IMPALA_TF_ENV_INDEX']

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    return np.zeros(3, np.float32), {}

  def step(self, action):
    return np.zeros(3, np.float32), 1., False, False, {}


class _OfWindow(_Own):
  metadata = {'render_modes': ['human']}

  def __init__(self, render_mode=None):
    assert render_mode in (None, 'human')
    super().__init__()


class _Drawn(_Own):
  metadata = {'render_modes': ['rgb_array']}

  def __init__(self, **kwargs):
    assert kwargs == {'render_mode': 'rgb_array'}
    super().__init__()

  def render(self):
    return np.zeros((4, 4, 3), np.uint8)


class _Taking(_Own):
  """An environment that changes its arguments, as some do."""

  def __init__(self, cfg):
    super().__init__()
    self.size = cfg['map'].pop('size')
    cfg['found'].append(self)
    assert len(cfg['found']) == 1, 'of another copy'


@pytest.fixture(name='make')
def _make():
  """Returns a function that makes a batch of a class or function."""
  def make(creator, num_envs=2, seed=0, **kwargs):
    gymnasium.register('Own-v0', creator)
    return gym.GymEnvironment('Own-v0', num_envs, seed, **kwargs)

  return make


@pytest.mark.parametrize('creator, is_drawn', [
    (_Own, False), (_OfWindow, False), (_Drawn, True),
    (lambda: _OfWindow(), False), (lambda **kwargs: _Own(**kwargs), False),
    (lambda **kwargs: _Drawn(**kwargs), True)])
def test_constructors_get_a_render_mode_if_they_take_and_list_it(
    make, creator, is_drawn, tmp_path):
  env = make(creator, kwargs={'render_mode': 'rgb_array'} if is_drawn else None)
  env.reset()
  env.step(np.zeros(2, np.int32))
  film = video.Video(str(tmp_path / 'film.gif'), env)
  if is_drawn:
    film.on_step(0)
    return
  with pytest.raises(config.UserError, match='cannot be drawn'):
    film.on_step(0)


def test_choices_are_of_their_spaces_type():
  _begun('Moves-Choices-v0', 1).step(np.array([[2, 1]], np.int32))


def test_first_observation_stays_while_other_copies_begin(make):
  shared = np.zeros(3, np.float32)

  def reset(self, *, seed=None, options=None):
    return np.add(shared, 1, out=shared), {}

  env = make(type('', (_Own,), {'reset': reset}))
  assert env.reset().observation[:, 0].tolist() == [1, 2]


def test_nested_arguments_are_each_copys_own(make):
  kwargs = {'cfg': {'map': {'size': 5}, 'found': []}}
  for _ in range(2):
    make(_Taking, num_envs=3, kwargs=kwargs)
  assert kwargs == {'cfg': {'map': {'size': 5}, 'found': []}}


def _leaving(*unused, **unused_kwargs):
  sys.exit()


@pytest.mark.parametrize('creator, words', [
    (_leaving, 'cannot be made .* line [0-9]+: SystemExit: sys.exit'),
    (type('', (_Own,), {'reset': _leaving}),
     'cannot be reset .*: .* line [0-9]+: SystemExit: sys.exit'),
    (type('', (_Own,), {'reset': lambda self, **kwargs: np.zeros(3)}),
     'cannot be reset .*: .* too many values to unpack'),
    (type('', (_Own,), {'reset': lambda self, **kwargs: np.zeros(2)}),
     "cannot be reset .*: .* 'numpy.float64' object is not a mapping"),
    (type('', (_Own,), {'reset': lambda self: (np.zeros(3), {})}),
     "cannot be reset .* TypeError: .* unexpected keyword argument 'seed'$"),
    (lambda max_episode_steps: _Own(),
     'max_episode_steps.* must take these, and no argument id, max_episode_')])
def test_constructor_or_reset_that_fails_is_named_with_its_line(
    make, creator, words):
  with pytest.raises(config.ConfigError, match=words):
    make(creator)


@pytest.mark.parametrize('changed, words', [
    ({'action_space': gymnasium.spaces.MultiDiscrete(np.zeros(0, int))},
     r'actions of type .* \[0\]'),
    ({'observation_space': gymnasium.spaces.Box(0, 1, (0,)),
      'reset': lambda self, seed, options: (np.zeros(0, np.float32), {})},
     'nothing in it'),
    ({'observation_space': gymnasium.spaces.Text(3)},
     'gym/Own-v0 has observations of Text, which has no fixed size')])
def test_spaces_without_numbers_are_refused(make, changed, words):
  with pytest.raises(config.ConfigError, match=words):
    make(type('', (_Own,), changed))


class _Fragile(_Own):
  """An environment of which copy 1 breaks at step 600."""
  seeds = []

  def reset(self, *, seed=None, options=None):
    self.steps = 0
    self.seeds.append((self.index, seed))
    return super().reset(seed=seed)

  def step(self, action):
    self.steps += 1
    if self.index == '1' and self.steps == 600:
      raise BrokenPipeError('the simulator is gone')
    return super().step(action)


def test_broken_environment_is_made_anew_in_its_place_with_a_seed(
    make, monkeypatch):
  monkeypatch.setattr(_Fragile, 'seeds', [])
  env = make(_Fragile, seed=7)
  env.reset()
  for _ in range(600):
    row = env.step(np.zeros(2, np.int32))
  assert row.step_type.tolist() == [MID, FIRST] and row.discount[1] == 1
  *first, (index, seed) = _Fragile.seeds
  assert first == [('0', 7), ('1', 8)]
  assert index == '1' and seed not in (None, 7, 8)


def test_channels_that_are_moved_and_pictures_that_policies_scale(make):
  for shape, number in ((4, 10, 10), 1), ((10, 10, 4), 0):
    space = gymnasium.spaces.Box(0, 1, shape, np.float32)
    env = make(type('', (_Own,), {
        'observation_space': space,
        'reset': lambda self, seed, options=None, space=space: (
            np.ones(space.shape, np.float32), {})}), pictures=True)
    assert env.observation_spec().shape == (10, 10, 4)
    assert len(env.remarks) == number
    np.testing.assert_array_equal(env.reset().observation, 255)
    env.disable_conversions()
    # A policy scales what has the shape of the space.
    np.testing.assert_array_equal(env.reset().observation, 255 if number else 1)
    for converted in True, False:
      settings = config.Config(environment=config.EnvironmentConfig(
          level='gym/Own-v0', converted=converted))
      env = factory.make_environment('gym/Own-v0', 2, 0, settings, True)
      np.testing.assert_array_equal(
          env.reset().observation, 255 if converted else 1)
    del gymnasium.registry['Own-v0']


needs_egl = pytest.mark.skipif(
    not ctypes.util.find_library('EGL'), reason='there is no EGL')


def _run_anew(program, **environ):
  return programs.run_code(program, env={
      'PATH': os.environ['PATH'], 'PYTHONPATH': ':'.join(sys.path), **environ})


@needs_egl
def test_both_draw_without_a_display_in_one_process():
  result = _run_anew("""
from impala_tf.envs import control
from impala_tf.envs import gym
for env in (gym.GymEnvironment('InvertedPendulum-v5', 1, seed=0),
            control.ControlEnvironment('cartpole/balance', 1, seed=0)):
  env.reset()
  assert env.render().std() > 0
""")
  assert result.returncode == 0, result.stderr


@needs_egl
@pytest.mark.parametrize('environ, chosen', [
    ({}, 'egl'), ({'MUJOCO_GL': 'osmesa'}, 'osmesa'),
    ({'DISPLAY': ':0'}, None), ({'DISPLAY': ''}, 'egl')])
def test_a_display_or_the_users_choice_comes_first(environ, chosen):
  result = _run_anew('import os\nfrom impala_tf.envs import gym\n'
                     'gym.draw_without_display()\n'
                     "print(os.environ.get('MUJOCO_GL'))", **environ)
  assert result.stdout == f'{chosen}\n'
