"""Atari against Gymnasium's wrappers, and the rows that games end with."""

import collections

import ale_py
from ale_py import vector_env
import dm_env
import gymnasium
from gymnasium import wrappers
import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import atari

FIRST, MID, LAST = dm_env.StepType
# Nothing random: what Gymnasium does with the same actions is the truth.
FIXED = dict(noop_max=0)


def _make(game, num_envs, seed=0, **options):
  return atari.AtariEnvironment(
      game, num_envs, seed, config.AtariConfig(**options))


def _gymnasium(game, frame_skip=4):
  pytest.importorskip('cv2')  # Of Gymnasium's wrapper.
  gymnasium.register_envs(ale_py)
  name = ''.join(word.title() for word in game.split('_'))
  env = gymnasium.make(
      f'ALE/{name}-v5', frameskip=1, repeat_action_probability=0.0)
  env = wrappers.AtariPreprocessing(env, noop_max=0, frame_skip=frame_skip)
  env = wrappers.FrameStackObservation(env, 4, padding_type='zero')
  return wrappers.RecordEpisodeStatistics(env)


# Steps that reach beyond the first game. Frogger plays on with 0 lives; Pong
# has none at all.
@pytest.mark.parametrize('game, num_steps, num_losses', [
    ('breakout', 250, 5), ('frogger', 330, 4), ('pong', 940, 0),
    ('space_invaders', 310, 2)])
def test_every_row_is_what_gymnasium_gives_through_lives_and_games(
    game, num_steps, num_losses):
  env, oracle = _make(game, 1, **FIXED), _gymnasium(game)
  row, (observation, _) = env.reset(), oracle.reset(seed=0)
  rng = np.random.default_rng(1)
  lives = oracle.unwrapped.ale.lives()
  episode_return, num_games, num_lost = 0, 0, 0
  for _ in range(num_steps):
    np.testing.assert_array_equal(
        row.observation[0], np.moveaxis(observation, 0, -1))
    action = rng.integers(env.action_spec().num_values)
    row = env.step(np.array([action], np.int32))
    observation, reward, terminated, _, info = oracle.step(action)
    # Read off the emulator itself, not off ALE's report of lost lives.
    life_lost = not terminated and oracle.unwrapped.ale.lives() < lives
    num_lost += life_lost
    episode_return += row.reward[0]
    if terminated:
      assert episode_return == info['episode']['r']
      observation, _ = oracle.reset()
      episode_return, num_games = 0, num_games + 1
    lives = oracle.unwrapped.ale.lives()
    assert row.reward[0] == reward
    assert row.step_type[0] == (FIRST if terminated else MID)
    assert row.discount[0] == (0 if terminated or life_lost else 1)
  assert (num_games, num_lost) == (1, num_losses)


class _ScriptedALE:
  """A stand-in for AtariVectorEnv of one environment."""

  single_action_space = gymnasium.spaces.Discrete(2)

  def __init__(self, start, rows):
    self._start, self._rows = start, iter(rows)

  def reset(self, seed=None):
    del seed
    return self._stacks(), {'lives': np.array([self._start], np.int32)}

  def step(self, actions):
    del actions
    lives, game_over, time_limit = next(self._rows)
    return (self._stacks(), np.array([3], np.int32), np.array([game_over]),
            np.array([time_limit]), {'lives': np.array([lives], np.int32),
                                     'final_obs': self._stacks()})

  def _stacks(self):
    return np.zeros([1, 4, 84, 84], np.uint8)


@pytest.mark.parametrize('life_loss_ends_episode', [True, False])
def test_rows_of_rare_events(monkeypatch, life_loss_ends_episode):
  end = 0 if life_loss_ends_episode else 1
  # ((lives, game over, time limit), (step type, discount)), in order of play.
  script = [
      ((3, False, False), (MID, 1)),
      ((4, False, False), (MID, 1)),    # A bonus life.
      ((2, False, False), (MID, end)),  # Two lost at once.
      ((2, False, False), (MID, 1)),    # Lost once, not on and on.
      ((3, True, False), (FIRST, 0)),   # A new game with more lives.
      ((1, True, False), (FIRST, 0)),   # A new game with fewer: no matter.
      ((4, False, False), (MID, 1)),    # As Demon Attack begins.
      ((3, False, True), (LAST, 1)),    # A time limit: these are new lives.
      ((3, False, False), (FIRST, 1)),  # The new game's first row.
      ((2, False, False), (MID, end)),  # Compared with the new game's.
      ((0, False, False), (MID, end)),  # Played on with none.
      ((0, True, False), (FIRST, 0)),
  ]
  monkeypatch.setattr(
      vector_env, 'AtariVectorEnv',
      lambda *_, **__: _ScriptedALE(3, [ale for ale, _ in script]))
  env = _make('pong', 1, noop_max=0,
              life_loss_ends_episode=life_loss_ends_episode)
  env.reset()
  rows = [env.step(np.zeros(1, np.int32)) for _ in script]
  assert [(r.step_type[0], r.discount[0]) for r in rows] == [
      ours for _, ours in script]


@pytest.mark.parametrize('max_frames, num_steps', [(1, 1), (102, 26)])
def test_time_limit_is_in_emulator_frames_without_no_ops(max_frames, num_steps):
  env = _make('pong', 2, max_episode_frames=max_frames)
  env.reset()
  types = []
  for _ in range(2 * num_steps):
    row = env.step(np.zeros(2, np.int32))
    types.append(row.step_type.tolist())
    np.testing.assert_array_equal(row.discount, 1)
  # The reset is the next game's first step for the emulator.
  game = [[MID] * 2] * (num_steps - 1) + [[LAST] * 2]
  assert types == game + [[FIRST] * 2] + game[1:]


def test_row_of_a_time_limit_shows_the_last_frame_of_its_game():
  env = _make('pong', 2, max_episode_frames=100, noop_max=0)
  free = _make('pong', 2, noop_max=0)
  rows = [env.reset(), free.reset()]
  for _ in range(25):
    rows = [each.step(np.full(2, 3, np.int32)) for each in (env, free)]
  assert rows[0].step_type.tolist() == [LAST] * 2
  at_limit, unlimited = (row.observation for row in rows)
  np.testing.assert_array_equal(at_limit[..., :3], unlimited[..., :3])
  # The newest differs by what only the frame before shows: paddle and ball.
  assert np.mean(at_limit[..., 3] != unlimited[..., 3]) < 0.01
  first = env.step(np.full(2, 3, np.int32)).observation
  assert not first[..., :3].any()  # Stacks do not reach into the old game.


@pytest.mark.slow
def test_games_start_with_1_to_noop_max_no_ops_uniformly():
  # The first frames of Enduro are all different.
  oracle = _gymnasium('enduro', frame_skip=1)
  frames = [oracle.reset(seed=0)[0][-1]]
  frames += [oracle.step(0)[0][-1] for _ in range(5)]
  num_noops = {frame.tobytes(): n for n, frame in enumerate(frames)}
  assert len(num_noops) == 6
  env = _make('enduro', 6, noop_max=3, max_episode_frames=2, action_repeats=1)
  env.reset()
  for extra in 0, 1:  # Some games start by `reset`, some after a time limit.
    counts = collections.Counter()
    for _ in range(20):
      row = env.reset()
      for _ in range(3 * extra):
        row = env.step(np.zeros(6, np.int32))
      assert (row.step_type == FIRST).all()
      assert not row.observation[..., :3].any()
      counts.update(num_noops[o[..., 3].tobytes()] for o in row.observation)
    assert counts.keys() == {1 + extra, 2 + extra, 3 + extra}
    # 40 each are expected; the standard deviation is 5.
    assert all(20 < count < 60 for count in counts.values())


def test_environment_i_has_seed_plus_i_by_which_actions_stick():
  options = dict(sticky_action_probability=0.5)
  one, other = _make('pong', 2, 5, **options), _make('pong', 2, 6, **options)
  row, other_row = one.reset(), other.reset()
  for t in range(40):
    np.testing.assert_array_equal(row.observation[1], other_row.observation[0])
    actions = np.full(2, 2 + t // 4 % 2, np.int32)
    row, other_row = one.step(actions), other.step(actions)
  # Starts without no-ops are alike, and paddles that obey alike, too.
  stuck = _make('pong', 2, 5, **options, **FIXED)
  stuck.reset()
  assert any((row[0] != row[1]).any() for row in (
      stuck.step(np.full(2, 2 + t // 4 % 2, np.int32)).observation
      for t in range(40)))


def test_options_reach_the_emulator():
  env = _make('pong', 2, height=50, width=40, frame_stack=3, action_repeats=2,
              full_action_set=True, max_episode_frames=20)
  assert env.observation_spec().shape == (50, 40, 3)
  assert (env.frame_stack, env.frames_per_step) == (3, 2)
  assert env.action_spec().num_values == 18
  env.reset()
  for _ in range(10):
    row = env.step(np.array([17, 0], np.int32))
  assert row.observation.shape == (2, 50, 40, 3)
  assert (row.step_type == LAST).all()  # 20 frames are 10 steps of 2.


def test_actions_mean_in_skiing_what_they_mean_in_every_game():
  """Each of the 18 actions looks as the emulator's action of its name."""
  emulator = ale_py.ALEInterface()
  emulator.loadROM(ale_py.roms.get_rom_path('skiing'))
  legal = [action.name for action in emulator.getLegalActionSet()]
  assert len(legal) == 9
  minimal = [action.name for action in emulator.getMinimalActionSet()]
  # Up and down do nothing in this game; left and right are all there is.
  reference = _make('skiing', 1, **FIXED)
  assert reference.action_spec().num_values == 3
  pictures = {name: _held(reference, minimal.index(name)) for name in minimal}
  assert len({p.tobytes() for p in pictures.values()}) == len(minimal) == 3
  env = _make('skiing', 1, full_action_set=True, **FIXED)
  assert env.action_spec().num_values == 18
  for name, action in ale_py.Action.__members__.items():
    shown = _held(env, action.value)
    same = name if name in minimal else 'NOOP'
    if name not in legal or name in minimal:
      np.testing.assert_array_equal(shown, pictures[same], err_msg=name)


def _held(env, action):
  """Returns the picture after an action was held for two seconds of a game."""
  env.reset()
  for _ in range(30):
    row = env.step(np.array([action], np.int32))
  return row.observation.copy()


def _shrunk(screen):
  """Makes of a screen in colour what the agent sees of it."""
  cv2 = pytest.importorskip('cv2')  # It shrinks as ALE does.
  grey = np.round(screen @ [0.2989, 0.587, 0.114]).astype(np.uint8)
  return cv2.resize(grey, (84, 84), interpolation=cv2.INTER_AREA).astype(int)


# Games of Breakout end within, and draw no-ops anew.
@pytest.mark.parametrize('game, num_steps, options', [
    ('breakout', 200, dict(noop_max=2, sticky_action_probability=0.25)),
    ('skiing', 60, dict(full_action_set=True, noop_max=0))])
@pytest.mark.slow
def test_screen_in_colour_is_of_the_game_that_the_agent_sees(
    game, num_steps, options):
  rows = {}
  for in_colour in (False, True):
    env = atari.AtariEnvironment(
        game, 3, 5, config.AtariConfig(**options), in_colour=in_colour)
    rng = np.random.default_rng(2)
    seen = [env.reset()]
    rows[in_colour] = []
    differences = []
    for step in range(num_steps):
      if step % 7 == 0 or step > num_steps - 20:
        picture = env.render()
        if in_colour:
          assert picture.shape == (210, 160, 3) and np.ptp(picture, -1).any()
          # The screen has the maximum of two frames' colours, not of their
          # greys, so a pixel or two of the ball differ.
          newest = seen[-1].observation[0, :, :, -1]
          differences.append(np.mean(abs(_shrunk(picture) - newest)))
      actions = rng.integers(env.action_spec().num_values, size=3)
      seen.append(env.step(actions.astype(np.int32)))
      rows[in_colour].append([np.copy(part) for part in seen[-1]])
    env.close()
  assert max(differences) < 0.06
  # Nothing about the batch's own games is different.
  for one, other in zip(rows[False], rows[True]):
    for a, b in zip(one, other):
      np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize('synchronisation, training, num_threads', [
    ('none', True, 1), ('step', True, 7), ('none', False, 7)])
def test_emulators_use_all_cores_if_nothing_else_runs(
    monkeypatch, synchronisation, training, num_threads):
  asked = []
  monkeypatch.setattr(atari.sizing, 'num_cores', lambda: 7)
  monkeypatch.setattr(
      atari, 'AtariEnvironment',
      lambda *args, num_threads, **_: asked.append(num_threads))
  atari.DOMAIN.make('pong', 8, 0, config.Config(
      actor=config.ActorConfig(synchronisation=synchronisation)), training)
  assert asked == [num_threads]
