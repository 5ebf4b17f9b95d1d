"""Cart-pole swing-up: an exploration task whose rewards are rare at first.

The task is bsuite's (Osband et al. 2020), for a whole batch. For experiments of
a minute, an action is held for four physics steps instead of one, and a push
costs 0.001 instead of 0.1. At bsuite's cost IMPALA learns only to hold still.

The equations are those of Barto, Sutton and Anderson 1983 without friction,
with a uniform rod as pole.
"""

import dm_env
from dm_env import specs
import numpy as np

from impala_tf.envs import domain
from impala_tf.envs import environment

# SI units, as in bsuite.
_GRAVITY = 9.8
_CART_MASS = 1.0
_POLE_MASS = 0.1
_HALF_LENGTH = 0.5
_FORCE = 10.0
_PHYSICS_STEP_SECS = 0.01
_TIME_LIMIT_SECS = 10.0
_TRACK = 3.0  # The cart may be this far from the centre, in metres.
_START_RANGE = 0.05

# The pole is rewarded for being upright and slow near the centre, as in the
# easiest of bsuite's twenty settings.
_MIN_HEIGHT = 0.0  # Cosine of the angle.
_MAX_ANGULAR_SPEED = 1.0
_MAX_DISTANCE = 1.0
_MOVE_COST = 0.001

_ACTION_REPEATS = 4
_TIME_LIMIT_STEPS = round(
    _TIME_LIMIT_SECS / _PHYSICS_STEP_SECS / _ACTION_REPEATS)


class CartPoleSwingUpEnvironment(environment.BatchedEnvironment):
  """E carts, each with a hanging pole that must be swung up and balanced.

  Actions push the cart for 0.04 s: 0 left, 1 not at all, 2 right. A step has
  reward 1 if the pole is upright by 90 degrees and 1 rad/s, and the cart within
  1 m of the centre. Random play earns it in one step of 200. Each push costs
  0.001. An episode takes 250 steps (10 s) unless the cart leaves the track at
  3 m.

  Both ends terminate with discount 0, as in bsuite: the agent observes the time
  and can expect the end.

  The observation is bsuite's, float32 [8]: position and speed of the cart over
  3 m; sine and cosine of the angle (0 is upright); angular speed in rad/s;
  fraction of the episode's time that has passed; and +1 or -1 each for a cart
  near enough, and a pole slow enough, for a reward.
  """

  def __init__(self, num_envs: int, seed: int):
    super().__init__(
        'cartpole_swingup', num_envs, environment.discrete(3),
        observation_spec=specs.Array((8,), np.float32, 'observation'))
    self._rng = np.random.default_rng(seed)
    self.frames_per_sec = 1 / (_PHYSICS_STEP_SECS * _ACTION_REPEATS)
    # Position, speed, angle and angular speed of each, in rows.
    self.state = np.zeros((4, num_envs))
    self._steps = np.zeros(num_envs, np.int64)

  def reset(self) -> dm_env.TimeStep:
    self._begin_episodes(np.ones(self.num_envs, bool))
    return self._first(self._observe())

  def _begin_episodes(self, where: np.ndarray):
    start = self._rng.uniform(
        -_START_RANGE, _START_RANGE, (4, np.count_nonzero(where)))
    start[2] += np.pi
    self.state[:, where] = start
    self._steps[where] = 0

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    self._steps += 1
    force = _FORCE * (actions - 1)
    for _ in range(_ACTION_REPEATS):
      self.state += _PHYSICS_STEP_SECS * derivative(self.state, force)
    position, _, angle, _ = self.state
    is_near, is_slow = self._is_near_and_slow()
    reward = (is_near & is_slow & (np.cos(angle) > _MIN_HEIGHT)
              ) - _MOVE_COST * (actions != 1)
    ended = (self._steps == _TIME_LIMIT_STEPS) | (abs(position) > _TRACK)
    if ended.any():
      self._begin_episodes(ended)
    return self._as_timestep(ended, reward, ~ended, self._observe())

  def _is_near_and_slow(self):
    return (abs(self.state[0]) < _MAX_DISTANCE,
            abs(self.state[3]) < _MAX_ANGULAR_SPEED)

  def _observe(self) -> np.ndarray:
    position, speed, angle, angular_speed = self.state
    is_near, is_slow = self._is_near_and_slow()
    columns = (position / _TRACK, speed / _TRACK, np.sin(angle), np.cos(angle),
               angular_speed, self._steps / _TIME_LIMIT_STEPS,
               np.where(is_near, 1, -1), np.where(is_slow, 1, -1))
    return np.stack(columns, axis=1, dtype=np.float32)

  def render(self) -> np.ndarray:
    scale, height, width = 20, 60, 160
    picture = np.full((height, width, 3), 255, np.uint8)
    position, _, angle, _ = self.state[:, 0]
    row, column = height // 2, width // 2 + int(round(scale * position))
    picture[row, :] = 200
    picture[row - 2:row + 3, column - 5:column + 6] = 0
    along = np.linspace(0, 2 * _HALF_LENGTH * scale, 2 * scale)
    rows = np.rint(row - along * np.cos(angle)).astype(int)
    columns = np.rint(column + along * np.sin(angle)).astype(int)
    picture[rows, columns] = (255, 0, 0)
    return picture


def derivative(state: np.ndarray, force: np.ndarray) -> np.ndarray:
  """Computes the derivative of the state, per second: float64 [4, E].

  The state is position, speed, angle from upright and angular speed; `force`,
  float64 [E], is that on the cart in newtons.
  """
  _, speed, angle, angular_speed = state
  sine, cosine = np.sin(angle), np.cos(angle)
  mass = _CART_MASS + _POLE_MASS
  moment = _POLE_MASS * _HALF_LENGTH
  push = (force + moment * angular_speed**2 * sine) / mass
  angular_acceleration = (_GRAVITY * sine - cosine * push) / (
      _HALF_LENGTH * (4 / 3 - _POLE_MASS * cosine**2 / mass))
  acceleration = push - moment * angular_acceleration * cosine / mass
  return np.stack([speed, acceleration, angular_speed, angular_acceleration])


DOMAIN = domain.Domain(
    forms=('cartpole_swingup',), check=lambda name: None,
    make=lambda name, num_envs, seed, *unused: CartPoleSwingUpEnvironment(
        num_envs, seed))
