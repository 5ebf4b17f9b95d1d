"""A batch of CartPoles against single ones that are stepped in turn."""

import gymnasium
from gymnasium.envs.classic_control import cartpole
import numpy as np
import pytest

from impala_tf.envs import gym
from impala_tf.envs import gym_cart_pole

E = 5
_CART_POLE = gymnasium.spec('CartPole-v1')


def _as_it_is(env):
  return env


@pytest.fixture(name='registered')
def _registered():
  names = []

  def register(name, **fields):
    gymnasium.register(name, **{
        'entry_point': _CART_POLE.entry_point,
        'vector_entry_point': _CART_POLE.vector_entry_point,
        'max_episode_steps': 30, **fields})
    names.append(name)

  yield register
  for name in names:
    del gymnasium.registry[name]


@pytest.mark.parametrize('env_id', ['CartPole-v1', 'CartPole-v0'])
def test_batch_plays_as_single_ones_to_the_bit(env_id):
  batch = gym.GymEnvironment(env_id, E, seed=7)
  singles = gym.GymEnvironment(env_id, E, seed=7, wrappers=[_as_it_is])
  assert isinstance(batch._envs, gym_cart_pole.CartPoleBatch)
  assert isinstance(singles._envs, gymnasium.vector.SyncVectorEnv)
  assert batch.observation_spec() == singles.observation_spec()
  assert batch.action_spec() == singles.action_spec()
  assert batch.frames_per_sec == singles.frames_per_sec
  rng = np.random.default_rng(0)
  rows = [env.reset() for env in (batch, singles)]
  ends = []
  for t in range(1200):
    if t == 1000:  # In the midst of episodes.
      rows = [env.reset() for env in (batch, singles)]
    for got, wanted in zip(*rows):
      np.testing.assert_array_equal(got, wanted)
      assert got.dtype == wanted.dtype
    # A controller that balances until the end, but for environment 0.
    actions = rows[1].observation @ np.array([0.05, 0.1, 1, 0.3]) > 0
    actions[0] = rng.integers(2)
    rows = [env.step(actions.astype(np.int32)) for env in (batch, singles)]
    ends += rows[1].discount[rows[1].step_type == 0].tolist()
  assert ends.count(1) >= 2 * (E - 1) and ends.count(0) > 10


class _MyCartPole(cartpole.CartPoleEnv):
  """A CartPole with rules of its own."""


@pytest.mark.parametrize('fields, is_cart_pole', [
    ({}, True),
    ({'kwargs': {'sutton_barto_reward': True}}, False),
    ({'entry_point': _MyCartPole}, False),
    ({'vector_entry_point': None}, False),
    ({'max_episode_steps': None}, False),
    ({'additional_wrappers': (gymnasium.wrappers.TimeAwareObservation
                              .wrapper_spec(),)}, False)])
def test_ids_that_differ_from_cart_pole_are_stepped_in_turn(
    registered, fields, is_cart_pole):
  registered('Mine-v0', **fields)
  assert gym_cart_pole.is_cart_pole('Mine-v0') == is_cart_pole
  env = gym.GymEnvironment('Mine-v0', E, seed=0)
  assert isinstance(env._envs, gym_cart_pole.CartPoleBatch) == is_cart_pole
  assert not gym_cart_pole.is_cart_pole('Nobodys-v0')


def test_arguments_make_single_ones():
  env = gym.GymEnvironment(
      'CartPole-v1', E, 0, kwargs={'sutton_barto_reward': True})
  env.reset()
  assert env.step(np.zeros(E, np.int32)).reward.tolist() == [0] * E


def test_picture_is_of_environment_0_alone():
  pytest.importorskip('pygame')
  batch, singles = (
      gym.GymEnvironment('CartPole-v1', 2, seed=1, wrappers=wrappers)
      for wrappers in ([], [_as_it_is]))
  pictures = []
  for env in batch, singles:
    env.reset()
    env.step(np.array([1, 0], np.int32))
    pictures.append(env.render())
    env.close()
  np.testing.assert_array_equal(*pictures)
