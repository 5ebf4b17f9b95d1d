"""Swing-up against the physics that it should obey, and its rewards."""

import dm_env
import numpy as np
import pytest

from impala_tf.envs import cartpole_swingup

FIRST, MID = dm_env.StepType.FIRST, dm_env.StepType.MID
LEFT, STAY, RIGHT = range(3)


def _make(num_envs=1, seed=0):
  return cartpole_swingup.CartPoleSwingUpEnvironment(num_envs, seed)


def _place(env, position=0.0, speed=0.0, angle=0.0, angular_speed=0.0):
  env.reset()
  env.state[...] = np.array([position, speed, angle, angular_speed])[:, None]


def _step(env, action):
  return env.step(np.full(env.num_envs, action, np.int32))


def _energy(state):
  """Computes the energy of cart (1 kg) and uniform rod (0.1 kg, 1 m)."""
  _, speed, angle, angular_speed = state
  rod_speed = np.array([speed + 0.5 * angular_speed * np.cos(angle),
                        -0.5 * angular_speed * np.sin(angle)])
  inertia = 0.1 * 1**2 / 12
  return (0.5 * 1.0 * speed**2 + 0.5 * 0.1 * (rod_speed**2).sum(0)
          + 0.5 * inertia * angular_speed**2
          + 0.1 * 9.8 * 0.5 * np.cos(angle))


@pytest.mark.parametrize('force', [-10.0, 0.0, 10.0])
@pytest.mark.parametrize('state', [
    (0.0, 0.0, 2.0, 0.0), (0.5, 0.3, 0.1, 0.4), (-1.0, -0.2, 3.0, 3.0)])
def test_a_push_adds_its_power_and_its_momentum(state, force):
  state = np.array(state)[:, None]
  rate = cartpole_swingup.derivative(state, np.array([force]))
  step = 1e-6
  later, sooner = state + step * rate, state - step * rate
  power = (_energy(later) - _energy(sooner)) / (2 * step)
  np.testing.assert_allclose(power, force * state[1], atol=1e-7)

  def momentum(state):
    return 1.1 * state[1] + 0.1 * 0.5 * state[3] * np.cos(state[2])

  np.testing.assert_allclose(
      (momentum(later) - momentum(sooner)) / (2 * step), force, atol=1e-7)


def test_a_step_is_four_of_a_hundredth_of_a_second():
  env = _make()
  _place(env, speed=0.5, angle=np.pi)  # Hangs still: speed stays for a moment.
  state = env.state.copy()
  for _ in range(4):
    state += 0.01 * cartpole_swingup.derivative(state, np.array([10.0]))
  _step(env, RIGHT)
  np.testing.assert_array_equal(env.state, state)
  assert state[0] > 0.04 * 0.5


def test_it_starts_hanging_down_and_staying_earns_nothing():
  env = _make(8)
  row = env.reset()
  np.testing.assert_allclose(row.observation[:, 3], -1, atol=0.01)
  assert len(np.unique(row.observation[:, 0])) == 8
  for t in range(1, 251):
    row = _step(env, STAY)
    np.testing.assert_array_equal(row.reward, 0)
    np.testing.assert_array_equal(row.step_type, FIRST if t == 250 else MID)
    np.testing.assert_array_equal(row.discount, 0 if t == 250 else 1)
  np.testing.assert_array_equal(row.observation[:, 5], 0)
  np.testing.assert_allclose(row.observation[:, 3], -1, atol=0.01)


@pytest.mark.parametrize('place, reward', [
    (dict(), 1),
    (dict(angle=1.4), 1),  # 80 degrees.
    (dict(angle=-1.7), 0),  # 97 degrees: too low,
    (dict(angular_speed=2.0), 0),  # too fast,
    (dict(angular_speed=-2.0), 0),
    (dict(position=1.1), 0),  # too far away.
    (dict(position=-1.1), 0),
    (dict(position=0.9), 1),
])
def test_only_upright_slow_and_near_is_rewarded_and_pushes_cost(place, reward):
  for action, cost in ((STAY, 0), (LEFT, 0.001), (RIGHT, 0.001)):
    env = _make(2)
    _place(env, **place)
    np.testing.assert_allclose(_step(env, action).reward, reward - cost,
                               rtol=1e-5)


def test_leaving_the_track_terminates_that_environment_alone():
  env = _make(3)
  _place(env)
  env.state[:2, 1:] = [[-2.99, 2.99], [-1., 1.]]
  row = _step(env, STAY)
  assert row.step_type.tolist() == [MID, FIRST, FIRST]
  assert row.discount.tolist() == [1, 0, 0]
  # Begun anew: hanging in the middle.
  np.testing.assert_allclose(
      row.observation[1:, [0, 3]], [[0, -1]] * 2, atol=0.02)
  np.testing.assert_allclose(row.observation[:, 5], [1 / 250, 0, 0])


def test_observation_is_the_state_in_its_units():
  env = _make()
  for place, signs in (
      (dict(position=1.5, speed=-0.6, angle=0.5, angular_speed=2.0), [-1, -1]),
      (dict(position=-0.5, angular_speed=-0.5), [1, 1])):
    _place(env, **place)
    observation = _step(env, STAY).observation[0]
    position, speed, angle, angular_speed = env.state[:, 0]
    np.testing.assert_allclose(
        observation, [position / 3, speed / 3, np.sin(angle), np.cos(angle),
                      angular_speed, 1 / 250, *signs], rtol=1e-6)
