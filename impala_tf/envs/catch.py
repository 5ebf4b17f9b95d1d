"""Catch: the smallest task with delayed rewards.

The game is bsuite's (Osband et al. 2020), for a whole batch.
"""

import dm_env
from dm_env import specs
import numpy as np

from impala_tf.envs import domain
from impala_tf.envs import environment

_ROWS = 10
_COLUMNS = 5
# Five balls take 45 steps, more than two unrolls of 20. Many catches are paid
# after their unroll has ended, and the baseline must predict it.
_NUM_BALLS_OF_DELAYED = 5
# Tasks that are learned together can so differ in scale, as games do.
_REWARD_OF_MIRRORED = 100


class CatchEnvironment(environment.BatchedEnvironment):
  """E games of Catch, in each of which a paddle must meet a falling ball.

  The ball starts in a random column, the paddle in the middle of the last row.
  Actions: 0 left, 1 stay, 2 right; walls stop the paddle. An episode takes 9
  steps; the last gives +1 if the paddle is under the ball, else -1. All
  environments end together.

  With N balls an episode takes 9 N steps. Every ball starts with the paddle in
  the middle, and the sum of all N rewards is paid at the end.

  The observation is the board, float32 [10, 5]: 1 at ball and paddle, else 0.
  With N > 1 a last row shows a catch as 1, a miss as -1, a ball to come as 0.
  Without it the baseline could not predict the sum, and catches before the last
  unroll would teach nothing.

  The mirrored game swaps left and right, shows -1 instead of 1, and pays 100
  and -100. An agent can learn it beside the first, but not from it.
  """

  frames_per_sec = 5.  # For people to watch.

  def __init__(self, num_envs: int, seed: int, num_balls: int = 1,
               level: str = 'catch', mirrored: bool = False):
    shape = (_ROWS if num_balls == 1 else _ROWS + 1, _COLUMNS)
    super().__init__(
        level, num_envs, environment.discrete(3),
        observation_spec=specs.Array(shape, np.float32, 'observation'))
    self._rng = np.random.default_rng(seed)
    self._envs = np.arange(num_envs)
    self._board = np.zeros((num_envs,) + shape, np.float32)
    self._num_balls = num_balls
    self._sign = -1 if mirrored else 1
    self._reward = _REWARD_OF_MIRRORED if mirrored else 1
    self._ball_number = 0
    self._earned = np.zeros((num_envs, num_balls), np.float32)
    self._row = 0
    self._ball = self._paddle = np.zeros(num_envs, np.int64)

  def reset(self) -> dm_env.TimeStep:
    self._begin_episode()
    return self._first(self._observe())

  def _begin_episode(self):
    self._ball_number = 0
    self._earned[...] = 0
    self._begin_ball()

  def _begin_ball(self):
    self._row = 0
    self._ball = self._rng.integers(_COLUMNS, size=self.num_envs)
    self._paddle = np.full(self.num_envs, _COLUMNS // 2)

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    self._row += 1
    self._paddle = np.clip(
        self._paddle + self._sign * (actions - 1), 0, _COLUMNS - 1)
    reward, ended = np.zeros(self.num_envs), False
    if self._row == _ROWS - 1:
      self._earned[:, self._ball_number] = np.where(
          self._ball == self._paddle, self._reward, -self._reward)
      self._ball_number += 1
      ended = self._ball_number == self._num_balls
      if ended:
        reward = self._earned.sum(axis=1)
        if self.on_termination:
          self._observe()
          self.on_termination()
        self._begin_episode()
      else:
        self._begin_ball()
    ends = np.full(self.num_envs, ended)
    return self._as_timestep(ends, reward, ~ends, self._observe())

  def _observe(self) -> np.ndarray:
    self._board[...] = 0
    self._board[self._envs, self._row, self._ball] = self._sign
    self._board[self._envs, _ROWS - 1, self._paddle] = self._sign
    if self._num_balls > 1:
      self._board[:, _ROWS, :self._num_balls] = self._earned
    return self._board

  def render(self) -> np.ndarray:
    grey = (abs(self._board[0]) * 255).astype(np.uint8)
    return np.repeat(grey[..., None], 3, -1)


DOMAIN = domain.Domain(
    forms=('catch', 'catch/delayed', 'catch/mirrored'),
    check=lambda name: None,
    make=lambda name, num_envs, seed, *unused: CatchEnvironment(
        num_envs, seed, _NUM_BALLS_OF_DELAYED if name == 'delayed' else 1,
        f'catch/{name}' if name else 'catch', mirrored=name == 'mirrored'))
