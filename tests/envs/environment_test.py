"""The contract of `BatchedEnvironment`, for each environment there is."""

import dm_env
from dm_env import specs
import gymnasium
import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import environment
from impala_tf.envs import factory
from impala_tf.envs import word_ids
from tests.fixtures import egl

E = 3
DISCRETE = (
    'catch', 'catch/delayed', 'tmaze/3', 'cartpole_swingup',
    'minigrid/MultiRoom-N2-S4-v0', 'gym/CartPole-v1', 'atari/freeway',
    'dmlab30/rooms_watermaze', 'vizdoom/basic')
CONTINUOUS = ('gym/InvertedPendulum-v5', 'control/cartpole/balance')
LEVELS = DISCRETE + CONTINUOUS
# Short games, so that ends are met within few steps.
# VizDoom's 'basic' has 75 steps.
CONFIG = config.Config(atari=config.AtariConfig(max_episode_frames=150))
NUM_STEPS = 120  # Cart-pole swing-up needs some 90 to leave its track.
MORE_STEPS = {'control/cartpole/balance': 1005}  # Its limit of time is 1000.

pytestmark = pytest.mark.usefixtures('fake_deepmind_lab')


def _make(level, seed=5):
  return factory.make_environment(level, E, seed, CONFIG, training=True)


@pytest.fixture(name='env', scope='module', params=LEVELS)
def _env(request, fake_deepmind_lab):
  del fake_deepmind_lab  # Only to be there first.
  return _make(request.param)


def _copy(timestep):
  return dm_env.TimeStep(*(np.array(field) for field in timestep))


def _random_actions(spec, rng):
  if isinstance(spec, specs.DiscreteArray):
    return rng.integers(spec.num_values, size=E).astype(np.int32)
  # Some beyond the bounds, as a policy's are.
  return (2 * rng.uniform(spec.minimum, spec.maximum, (E, *spec.shape))
          ).astype(np.float32)


def _play(env, num_steps=NUM_STEPS):
  """Returns copies of the rows of random play, `reset` included."""
  rng = np.random.default_rng(0)
  rows = [_copy(env.reset())]
  for _ in range(num_steps):
    rows.append(_copy(env.step(_random_actions(env.action_spec(), rng))))
  return rows


def test_rows_are_as_the_specs_say(env):
  spec = env.observation_spec()
  for row in _play(env):
    assert row.step_type.dtype == np.uint8 and row.step_type.shape == (E,)
    assert row.reward.dtype == np.float32 and row.reward.shape == (E,)
    assert row.discount.dtype == np.float32 and row.discount.shape == (E,)
    assert set(row.discount) <= {0, 1}
    assert row.observation.shape == (E,) + spec.shape
    for observation in row.observation:
      spec.validate(observation)
  if env.frame_stack > 1:
    assert spec.shape[-1] == env.frame_stack


def test_terminations_reset_within_their_step_and_limits_one_step_later(env):
  rows = _play(env, MORE_STEPS.get(env.level, NUM_STEPS))
  types = np.array([row.step_type for row in rows])
  first, last = types == dm_env.StepType.FIRST, types == dm_env.StepType.LAST
  assert first[1:].any() and (types == dm_env.StepType.MID).any()
  assert not (first[1:] & first[:-1]).any()
  discounts, rewards = (
      np.array([getattr(row, name) for row in rows])
      for name in ('discount', 'reward'))
  np.testing.assert_array_equal(first[1:] & (discounts[1:] > 0), last[:-1])
  assert not rewards[1:][last[:-1]].any()


def test_each_reset_gives_other_first_rows_without_reward(env):
  starts = []
  for _ in range(6):
    row = _play(env, 4)[0]
    np.testing.assert_array_equal(row.step_type, dm_env.StepType.FIRST)
    np.testing.assert_array_equal(row.reward, 0)
    np.testing.assert_array_equal(row.discount, 1)
    starts.append(row.observation)
  assert any((start != starts[0]).any() for start in starts)
  # Those of a batch differ, too.
  assert any((start[0] != start[1]).any() for start in starts)


@pytest.mark.parametrize('level', LEVELS)
@pytest.mark.slow
def test_seed_and_actions_determine_everything(level):
  env_a, env_b, env_c = _make(level), _make(level), _make(level, seed=50)
  rows_a, rows_b, rows_c = _play(env_a), _play(env_b), _play(env_c)
  for a, b in zip(rows_a, rows_b):
    for field_a, field_b in zip(a, b):
      np.testing.assert_array_equal(field_a, field_b)
  assert any((a.observation != c.observation).any()
             for a, c in zip(rows_a, rows_c))


@pytest.mark.parametrize('env', DISCRETE, indirect=True)
@pytest.mark.parametrize('action', [-1, 2**31 - 1, 'one too many'])
def test_action_out_of_range_is_refused_and_the_game_goes_on(env, action):
  env.reset()
  assert env.action_spec().dtype == np.int32
  assert env.action_spec().minimum == 0
  num_actions = env.action_spec().num_values
  if action == 'one too many':
    action = num_actions
  actions = np.array([0, action, num_actions - 1], np.int32)
  with pytest.raises(ValueError) as error:
    env.step(actions)
  for words in (env.level, f'action {action} of environment 1',
               f'0 to {num_actions - 1}'):
    assert words in str(error.value)
  env.step(np.zeros(E, np.int32))


@pytest.mark.parametrize('env', CONTINUOUS, indirect=True)
@pytest.mark.parametrize('number', [np.nan, -np.inf])
def test_action_that_is_not_finite_is_refused_and_the_game_goes_on(env, number):
  env.reset()
  actions = np.zeros((E, *env.action_spec().shape), np.float32)
  actions[1, -1] = number
  with pytest.raises(ValueError) as error:
    env.step(actions)
  for words in (env.level, 'action of environment 1 is not finite',
               'lower OptimizerConfig.learning_rate'):
    assert words in str(error.value)
  env.step(np.zeros_like(actions))


@pytest.mark.parametrize('low, high, dtype', [
    (-.01, .01, np.float32), (100, 200, np.float32), (.1, .7, np.float16),
    (1e8, 1e8 + 900, np.float32), (-np.inf, 3, np.float64),
    (0, np.finfo(np.float32).max, np.float32)])
def test_every_action_is_in_the_box_and_ones_are_its_bounds(low, high, dtype):
  space = gymnasium.spaces.Box(low, high, (1,), dtype)
  box = environment.ActionBox(space.low, space.high)
  assert box.is_bounded.all() == (float(high) - low < 1e30)
  for number in (-9, -1, -.7, -1e-9, 0, .3, 1, 1e6):
    action = box.fit(np.float32([number]))
    assert space.contains(action)
    if not box.is_bounded.all():  # In the simulator's unit.
      np.testing.assert_array_equal(
          action, np.clip(np.float32(number), space.low, space.high))
  if box.is_bounded.all():
    shares = [(box.fit(np.float32([x]))[0] - float(low)) / (high - low)
              for x in (-1, 0, .5, 1)]
    np.testing.assert_allclose(shares, [0, .5, .75, 1], atol=.15)


def test_actions_within_one_and_unscaled_ones_stay_as_they_are():
  actions = np.random.default_rng(1).normal(size=[999, 2]).astype(np.float32)
  one = np.ones(2, np.float32)
  for box in (environment.ActionBox(-one, one),
              environment.ActionBox(-7 * one, 100 * one, scaled=False)):
    np.testing.assert_array_equal(
        box.fit(actions), np.clip(actions, box.low, box.high))


@pytest.mark.parametrize('env, actions, message', [
    ('catch', np.zeros(E + 1, np.int32),
     r'shape \(3,\), but are int32 of shape \(4,\)'),
    ('catch', np.zeros(E, np.uint32), 'int32 of .* but are uint32'),
    ('catch', [0] * E, r'NumPy array.* \(list\)'),
    ('gym/InvertedPendulum-v5', np.zeros([E, 1], np.int32),
     'float32 of .* but are int32'),
], indirect=['env'])
def test_actions_of_another_kind_are_refused(env, actions, message):
  env.reset()
  with pytest.raises(ValueError, match=f'^{env.level}: .*{message}'):
    env.step(actions)


def test_picture_for_videos(env):
  if env.level == 'gym/CartPole-v1':
    pytest.skip('it draws in evaluation only')
  if env.level in CONTINUOUS and egl.obstacle():
    pytest.skip(egl.obstacle())
  env.reset()
  picture = env.render()
  assert picture.dtype == np.uint8
  assert picture.ndim == 3 and picture.shape[-1] == 3
  assert picture.any()


class _Choosing(environment.BatchedEnvironment):
  """An environment of two choices that pays what is chosen."""

  def __init__(self):
    super().__init__('choosing', E, environment.multi_discrete([2, 300]),
                     dm_env.specs.Array((), np.float32), has_action_mask=True)

  def reset(self):
    return self._first(np.zeros(E, np.float32))

  def _step(self, actions):
    return self.reset()._replace(reward=actions.sum(axis=1))

  def render(self):
    raise NotImplementedError


def test_each_choice_has_its_own_range():
  env = _Choosing()
  assert env.side_channel_specs().action_mask.shape == (302,)
  assert env.action_mask.shape == (E, 302) and env.action_mask.all()
  actions = np.array([[1, 299], [0, 0], [1, 2]], np.int32)
  assert env.step(actions).reward.tolist() == [300, 0, 3]
  for wrong in [2, 0], [1, 300], [-1, 0]:
    actions[1] = wrong
    with pytest.raises(config.UserError) as error:
      env.step(actions)
    assert str(error.value) == (
        f'choosing: action {np.array(wrong)} of environment 1 is out of range; '
        'it must be within 0 to [  1 299]')
  with pytest.raises(config.UserError, match=r'int32 of shape \(3, 2\)'):
    env.step(np.zeros(E, np.int32))


class _Instructing(environment.BatchedEnvironment):
  """An environment that gives the instructions it is made with."""

  def __init__(self, instruction_length):
    super().__init__('instructing', 2, environment.discrete(1),
                     dm_env.specs.Array((), np.float32),
                     instruction_length=instruction_length)
    self.texts = ['', '']

  def reset(self):
    for i, text in enumerate(self.texts):
      self._instruct(i, text)
    return self._first(np.zeros(2, np.float32))

  def _step(self, actions):
    return self.reset()

  def render(self):
    raise NotImplementedError


def _ids(*words):
  return [word_ids.word_ids(word)[0] if word else 0 for word in words]


def test_instruction_is_each_environments_newest_padded_with_zeros():
  env = _Instructing(4)
  assert env.instruction.dtype == np.int32
  for texts, expected in (
      (['', 'go to it'], [_ids('', '', '', ''), _ids('go', 'to', 'it', '')]),
      (['open the door now', 'go to it'],
       [_ids('open', 'the', 'door', 'now'), _ids('go', 'to', 'it', '')]),
      (['go', ''], [_ids('go', '', '', ''), _ids('', '', '', '')])):
    env.texts = texts
    env.reset()
    np.testing.assert_array_equal(env.instruction, expected)
  assert env.num_instructions_cut == 0


def test_long_instruction_is_cut_and_counted_and_noted_once(capsys):
  env = _Instructing(2)
  for texts in (['go to it', 'go there'], ['go to it', 'open the red door'],
                ['go to it', 'open the red door'], ['go', 'go to it']):
    env.texts = texts
    env.reset()
  np.testing.assert_array_equal(env.instruction, [_ids('go', ''),
                                                  _ids('go', 'to')])
  assert env.num_instructions_cut == 3  # Each when it was given.
  line, = capsys.readouterr().err.splitlines()
  assert line.startswith('note: ')
  assert 'AgentConfig.instruction_length' in line
