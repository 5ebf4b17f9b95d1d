"""A batch of CartPoles against single ones that are stepped in turn."""

import dataclasses

import dm_env
import gymnasium
from gymnasium.envs.classic_control import cartpole
import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import factory
from impala_tf.envs import gym
from impala_tf.envs import gym_cart_pole

E = 5
FIRST, _, LAST = dm_env.StepType
_CART_POLE = gymnasium.spec('CartPole-v1')


@pytest.mark.parametrize('env_id', ['CartPole-v1', 'CartPole-v0'])
def test_batch_plays_as_single_ones_to_the_bit(env_id):
  batch = factory.make_environment(f'gym/{env_id}', E, 7, config.Config(), True)
  singles = gym.GymEnvironment(env_id, E, seed=7)
  assert isinstance(batch, gym_cart_pole.CartPoleEnvironment)
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
    ends += rows[1].step_type.tolist()
  assert ends.count(LAST) >= E - 1 and ends.count(FIRST) > 20


class _MyCartPole(cartpole.CartPoleEnv):
  """A CartPole with its own rules."""


@pytest.mark.parametrize('fields, is_cart_pole', [
    ({}, True),
    ({'kwargs': {'sutton_barto_reward': True}}, False),
    ({'entry_point': _MyCartPole}, False),
    ({'max_episode_steps': None}, False),
    ({'additional_wrappers': (gymnasium.wrappers.TimeAwareObservation
                              .wrapper_spec(),)}, False)])
def test_ids_that_differ_from_cart_pole_are_stepped_in_turn(
    fields, is_cart_pole, monkeypatch):
  monkeypatch.setitem(gymnasium.registry, 'Mine-v0', dataclasses.replace(
      _CART_POLE, id='Mine-v0', **fields))
  env = factory.make_environment('gym/Mine-v0', E, 0, config.Config(), True)
  assert is_cart_pole == isinstance(env, gym_cart_pole.CartPoleEnvironment)
  assert not gym_cart_pole.is_cart_pole('Nobodys-v0')


@pytest.mark.parametrize('options', [
    {'kwargs': {'sutton_barto_reward': True}}, {'episode_metrics': 'score'}])
def test_options_make_single_ones(options):
  env = factory.make_environment(
      'gym/CartPole-v1', E, 0, config.Config(
          environment=config.EnvironmentConfig(
              level='gym/CartPole-v1', **options)), True)
  assert isinstance(env, gym.GymEnvironment)
