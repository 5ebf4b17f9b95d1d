"""MiniGrid and BabyAI: rooms, doors and keys, observed as symbols.

Both are in the package minigrid (Chevalier-Boisvert et al. 2023; BabyAI:
Chevalier-Boisvert et al. 2019) and played through Gymnasium.
"""

import os
from typing import Any, Mapping

import numpy as np

from impala_tf.envs import domain as domain_lib
from impala_tf.envs import gym

# The package's names for a domain's levels begin with these.
_PREFIXES = {'minigrid': 'MiniGrid', 'babyai': 'BabyAI'}


class MinigridEnvironment(gym.GymEnvironment):
  """E copies of one level of MiniGrid or BabyAI.

  The agent sees the 7 x 7 cells before it. Each has an object, its colour, and
  whether a door is open, closed or locked. The package numbers these names;
  here each is a one-hot vector: float32 [7, 7, 20], of 11 objects, 6 colours
  and 3 states.

  Actions: 0 turn left, 1 turn right, 2 forward, 3 pick up, 4 drop, 5 toggle, 6
  done. The mission, a sentence, is the instruction. Most of BabyAI's levels
  cannot be solved without it.

  A level's own limit of steps truncates. Rewards are the package's: in most
  levels 1 - 0.9 (steps / limit) at the goal and 0 elsewhere.
  """

  def __init__(self, name: str, num_envs: int, seed: int,
               domain: str = 'minigrid', instruction_length: int = 0,
               **options: Any):
    """Makes the environments of a level of `domain`, 'minigrid' or 'babyai'.

    `instruction_length` 0 means no missions; `options` are those of
    `GymEnvironment`. Raises ConfigError if there is no such level.
    """
    # Lazily: they are simulators. pygame would greet on standard output.
    os.environ.setdefault('PYGAME_HIDE_SUPPORT_PROMPT', '1')
    import gymnasium
    from minigrid.core import constants  # On import minigrid registers levels.
    env_id = f'{_PREFIXES[domain]}-{name}'
    tables = [np.eye(len(names), dtype=np.float32) for names in (
        constants.OBJECT_TO_IDX, constants.COLOR_TO_IDX,
        constants.STATE_TO_IDX)]
    depth = sum(len(table) for table in tables)

    def encode(observation: Mapping[str, Any]) -> np.ndarray:
      image = observation['image']
      return np.concatenate(
          [table[image[..., i]] for i, table in enumerate(tables)], axis=-1)

    def make(seed):
      del seed  # The first reset gets it.
      env = gymnasium.make(env_id, render_mode='rgb_array')
      height, width, _ = env.observation_space['image'].shape
      return gymnasium.wrappers.TransformObservation(
          env, encode, gymnasium.spaces.Box(
              0, 1, (height, width, depth), np.float32))

    super().__init__(env_id, num_envs, seed, f'{domain}/{name}', make=make,
                     instruction_length=instruction_length, **options)

  def _observe(self, i: int, observation: Any, info: Mapping[str, Any],
               is_last: bool = False) -> np.ndarray:
    if self.instruction_length:
      self._instruct(i, self._simulators[i].unwrapped.mission)
    return super()._observe(i, observation, info, is_last)


def _domain(domain: str) -> domain_lib.Domain:
  def check(name: str) -> None:
    domain_lib.check_installed('minigrid', 'MiniGrid and BabyAI')
    gym.check_module(f'{domain}/{name}')

  return domain_lib.Domain(
      forms=(f'{domain}/<id>',), check=check, has_instructions=True,
      make=lambda name, num_envs, seed, config, training: MinigridEnvironment(
          name, num_envs, seed, domain, config.agent.instruction_length,
          converted=config.environment.converted,
          pictures=config.agent.sees_pictures))


MINIGRID = _domain('minigrid')
BABYAI = _domain('babyai')
