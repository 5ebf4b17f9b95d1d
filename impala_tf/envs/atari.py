"""Atari games on the emulator's own batched interface (`ale_py.vector_env`).

ALE is imported on construction only, so that a misspelt game is reported at
once. Statements about ALE in this file hold for ale-py 0.12 and are tested.
"""

import dataclasses
import difflib
import importlib.util
import pathlib
import re
from typing import Any, Mapping

import dm_env
from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import domain
from impala_tf.envs import environment
from impala_tf.runtime import sizing

# Bundled with ale-py, but only for two players or more: if asked to
# play one of them alone, the emulator ends the whole process.
_MULTIPLAYER = ('combat', 'joust', 'maze_craze', 'warlords')
_FULL_ACTION_SET = 18  # ALE's actions have the numbers from 0, a no-op.


def games() -> list[str]:
  """Lists one-player games by ale-py's ROM files, without importing ale-py."""
  spec = importlib.util.find_spec('ale_py')
  assert spec is not None and spec.submodule_search_locations
  roms = pathlib.Path(spec.submodule_search_locations[0], 'roms')
  bundled = {path.stem for path in roms.glob('*.bin')}
  return sorted(bundled.difference(_MULTIPLAYER))


def near_games(name: str) -> list[str]:
  """Lists the game that a name spells otherwise, or up to 3 similar games."""
  stem = re.sub(r'^ALE/|(-ram)?(NoFrameskip|Deterministic)?(-v\d+)?$', '', name)
  plain = {game.replace('_', ''): game for game in games()}
  key = re.sub(r'[\W_]', '', stem).lower()
  if key in plain:
    return [plain[key]]
  return [plain[near] for near in difflib.get_close_matches(key, plain, n=3)]


def check_game(game: str) -> None:
  """Raises ConfigError, with similar names, for an unknown game."""
  domain.check_known(
      game, 'atari/{}', games(),
      'names are in snake case, such as atari/space_invaders', near_games(game))


def _redraw_noops(ale: Any, frames: np.ndarray, info: Mapping[str, Any]):
  """Repeats resets that drew 0 no-ops, so that each game begins with 1 to n."""
  # No frame yet: a new game.
  while (again := info['episode_frame_number'] == 0).any():
    frames, info = ale.reset(options={'reset_mask': again})
  return frames, info


class _Screen:
  """The screen of environment 0 in colour, from a second emulator.

  ALE's batch shows only its small grey frames. The second emulator plays the
  same game by the same seed and actions, once a picture is wanted.
  """

  def __init__(self, game: str, seed: int, settings: Mapping[str, Any]):
    self._game = game
    self._seed: int | None = seed
    self._settings = settings
    self._ale: Any = None
    # Actions of environment 0 as ALE numbers them; None for a reset.
    self.missed: list[int | None] = []
    self._picture: np.ndarray

  def picture(self) -> np.ndarray:
    if self._ale is None:
      self._ale = self._make()
    for action in self.missed:
      if action is None:
        frames, info = self._ale.reset(seed=self._seed)
        self._seed = None
      else:
        frames, *_, info = self._ale.step(np.array([action], np.int32))
      if self._settings['noop_max']:
        frames, _ = _redraw_noops(self._ale, frames, info)
      self._picture = frames[0, 0].copy()
    self.missed.clear()
    return self._picture

  def _make(self):
    import ale_py  # Lazily: it is a simulator.
    from ale_py import roms
    from ale_py import vector_env
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    console = ale_py.ALEInterface()
    console.loadROM(roms.get_rom_path(self._game))
    height, width = console.getScreenDims()
    return vector_env.AtariVectorEnv(
        self._game, 1, num_threads=1, img_height=height, img_width=width,
        stack_num=1, grayscale=False, **self._settings)

  def close(self) -> None:
    if self._ale is not None:
      self._ale.close()


class AtariEnvironment(environment.BatchedEnvironment):
  """E copies of one game, as Mnih et al. 2016 and Espeholt et al. 2018 play it.

  Actions are held for `action_repeats` frames. The last two are turned to grey,
  pooled by maximum and shrunk: uint8 [H, W, S], oldest first. A game
  starts with S-1 zero frames. Rewards are raw.

  A game starts with 1 to `noop_max` no-ops, uniformly. FIRE is not pressed for
  the agent. At `max_episode_frames` emulator frames, without no-ops, it is
  truncated. ALE begins the next game at once, so that starts with a no-op more.

  With `life_loss_ends_episode` a lost life gives discount 0 in a MID row: game,
  stack and return go on.
  """

  def __init__(self, game: str, num_envs: int, seed: int,
               config: config_lib.AtariConfig, num_threads: int = 1,
               in_colour: bool = False):
    """Starts the emulators of a game that `check_game` has passed.

    `num_threads` step all E emulators; games do not depend on it. With
    `in_colour`, `render` keeps actions and draws colours, otherwise grey.
    """
    from ale_py import vector_env  # Lazily: it is a simulator.
    settings: dict[str, Any] = dict(
        autoreset_mode='SameStep',
        # ALE counts both in emulator frames and draws no-ops from 0 to
        # `noop_max` - 1. Draws of 0 are repeated below.
        max_num_frames_per_episode=config.max_episode_frames,
        noop_max=config.noop_max + 1 if config.noop_max else 0,
        repeat_action_probability=config.sticky_action_probability,
        full_action_space=config.full_action_set,
        frameskip=config.action_repeats,
        reward_clipping=False,
        use_fire_reset=False,
        # ALE would end the game with a life. Its report of lost lives leaves
        # out a life that drops to 0 while the game goes on.
        episodic_life=False,
        life_loss_info=False)
    self._ale = vector_env.AtariVectorEnv(
        game, num_envs, num_threads=min(num_threads, num_envs),
        img_height=config.height, img_width=config.width,
        stack_num=1,  # See `_observe`.
        **settings)
    self._screen = _Screen(game, seed, settings) if in_colour else None
    shape = (config.height, config.width, config.frame_stack)
    actions: Any = self._ale.single_action_space  # It is `Discrete`.
    num_actions = int(actions.n)
    self._action_table = None
    if config.full_action_set and num_actions < _FULL_ACTION_SET:
      # ALE numbers a game's actions without gaps (RIGHT is 2 in Skiing, 3
      # elsewhere) and hangs if a number does not exist. Others are no-ops, 0.
      self._action_table = np.zeros(_FULL_ACTION_SET, np.int32)
      for number, action in enumerate(self._ale.ale.get_action_set()):
        self._action_table[action.value] = number
      num_actions = _FULL_ACTION_SET
    super().__init__(
        f'atari/{game}', num_envs, environment.discrete(num_actions),
        observation_spec=specs.Array(shape, np.uint8, 'observation'),
        frames_per_step=config.action_repeats, frame_stack=config.frame_stack)
    self._seed: int | None = seed
    self._has_noops = config.noop_max > 0
    self._life_loss_ends_episode = config.life_loss_ends_episode
    self._lives = np.zeros(num_envs, np.int32)
    self._observation = np.zeros((num_envs,) + shape, np.uint8)

  def reset(self) -> dm_env.TimeStep:
    frames, info = self._ale.reset(seed=self._seed)
    self._seed = None
    if self._screen:
      self._screen.missed.append(None)
    if self._has_noops:
      frames, info = _redraw_noops(self._ale, frames, info)
    self._lives = info['lives']
    return self._first(self._observe(frames, slice(None)))

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    if self._action_table is not None:
      actions = self._action_table[actions]
    resets = self._was_truncated
    if resets.any():
      actions = np.where(resets, 0, actions)
    frames, reward, game_over, truncated, info = self._ale.step(actions)
    if self._screen:
      self._screen.missed.append(int(actions[0]))
    began, final_frames = game_over | truncated, info.get('final_obs', frames)
    if self._has_noops and began.any():
      frames, info = _redraw_noops(self._ale, frames, info)
    if truncated.any():  # ALE does not pool these frames.
      frames = np.where(truncated[:, None, None, None], final_frames, frames)
    if resets.any():
      reward = np.where(resets, 0, reward)
      game_over, truncated = game_over & ~resets, truncated & ~resets
    self._was_truncated = truncated & ~game_over
    first, terminal, lives = game_over | resets, game_over, info['lives']
    if self._life_loss_ends_episode:
      # Lives in a row that begins are the new game's. A bonus adds a life.
      terminal = terminal | ((lives < self._lives) & ~(began | resets))
    self._lives = lives
    return self._as_timestep(
        first, reward, ~terminal, self._observe(frames, first),
        self._was_truncated)

  def _observe(self, frames: np.ndarray, first: Any) -> np.ndarray:
    """Shifts frames into the stacks, 3 times faster than ALE's are transposed.

    `frames` are the newest, uint8 [E, 1, H, W]; games begin in rows `first`.
    """
    # The frames of a pixel lie side by side, so each byte moves to the one
    # before. Bytes that come from a neighbouring pixel are overwritten.
    pixels = self._observation.reshape(-1)
    pixels[:-1] = pixels[1:]
    self._observation[first] = 0
    self._observation[..., -1] = frames[:, 0]
    return self._observation

  def render(self) -> np.ndarray:
    if self._screen:
      return self._screen.picture()
    return np.repeat(self._observation[0, :, :, -1:], 3, axis=-1)

  def close(self) -> None:
    self._ale.close()
    if self._screen:
      self._screen.close()


def _make(game: str, num_envs: int, seed: int, config: config_lib.Config,
          training: bool) -> AtariEnvironment:
  """Makes a batch of games, stepped on all cores; in actors by one thread."""
  atari = config.atari if training else dataclasses.replace(
      config.atari, life_loss_ends_episode=False)
  has_machine = config.learner_plays or not training
  return AtariEnvironment(
      game, num_envs, seed, atari, in_colour=not training,
      num_threads=sizing.num_cores() if has_machine else 1)


DOMAIN = domain.Domain(
    forms=('atari/<game>',), check=check_game, make=_make, steps_batches=True,
    is_uniform=lambda config: config.atari.full_action_set,
    action_remedy='set AtariConfig.full_action_set = True')
