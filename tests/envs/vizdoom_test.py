"""VizDoom against the package's own games, and its leftovers."""

import os
import pathlib

import dm_env
import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import environment
from impala_tf.envs import vizdoom
from tests.fixtures import programs

package = pytest.importorskip('vizdoom')

FIRST, MID, LAST = dm_env.StepType
NOTHING = 0


def _make(name='basic', num_envs=1, seed=3, **options):
  return vizdoom.VizdoomEnvironment(
      name, num_envs, seed, config.VizdoomConfig(**options))


def _act(env, action):
  return env.step(np.full(env.num_envs, action, np.int32))


def _files():
  """Lists the shared memory of games and their players."""
  return set(pathlib.Path('/dev/shm').glob('ViZDoom*'))


@pytest.fixture(name='bare_games')
def _bare_games(monkeypatch, tmp_path):
  """Starts games of 'basic' by the package alone, seeded with 3 and 4."""
  monkeypatch.chdir(tmp_path)  # They write there.
  games = []
  for seed in (3, 4):
    game = package.DoomGame()
    game.load_config(os.path.join(package.scenarios_path, 'basic.cfg'))
    game.set_screen_resolution(package.ScreenResolution.RES_160X120)
    game.set_screen_format(package.ScreenFormat.RGB24)
    game.set_window_visible(False)
    game.set_seed(seed)
    game.init()
    games.append(game)
  yield games
  for game in games:
    game.close()


def test_every_row_is_what_the_package_gives(bare_games):
  env = _make(num_envs=2, game_variables=True)
  row = env.reset()
  for game in bare_games:
    game.new_episode()
  rng = np.random.default_rng(0)
  has_killed = [False, False]
  discounts, ammunition, states = [], set(), [None, None]
  for _ in range(400):
    # At a time limit Doom shows nothing, and the frame before stays.
    states = [game.get_state() or state for game, state in zip(
        bare_games, states)]
    for state, observation in zip(states, row.observation):
      np.testing.assert_array_equal(observation, state.screen_buffer[::2, ::2])
    np.testing.assert_array_equal(env.render(), states[0].screen_buffer)
    np.testing.assert_allclose(
        env.features, [state.game_variables / 100 for state in states])
    ammunition.add(env.features[0, 0])
    actions = rng.integers(4, size=2).astype(np.int32)
    row = env.step(actions)
    for i, game in enumerate(bare_games):
      pressed = [int(actions[i] == button) for button in (1, 2, 3)]
      if game.is_episode_finished():  # At its limit, a step ago.
        assert row.step_type[i] == FIRST and row.reward[i] == 0
        game.new_episode()
        continue
      assert row.reward[i] == game.make_action(pressed, 4)
      has_killed[i] |= row.reward[i] > 50  # Nothing else pays so much.
      ended = game.is_episode_finished()
      assert row.step_type[i] == (
          MID if not ended else FIRST if has_killed[i] else LAST)
      if ended:
        # By then or a frame later. The other way to end is the time limit.
        assert row.discount[i] == (0 if has_killed[i] else 1)
        discounts.append(row.discount[i])
        if has_killed[i]:
          game.new_episode()
        has_killed[i] = False
      else:
        assert row.discount[i] == 1
  assert set(discounts) == {0, 1} and len(ammunition) > 10
  env.close()


def test_death_terminates_where_there_is_no_limit():
  env = _make('take_cover')
  env.reset()
  for _ in range(1000):
    row = _act(env, NOTHING)
    if row.step_type[0] == FIRST:
      break
    assert row.discount[0] == 1
  assert row.step_type[0] == FIRST and row.discount[0] == 0
  env.close()


@pytest.mark.parametrize('name', vizdoom.NAMES)
@pytest.mark.slow
def test_scenario_is_played_with_each_of_its_buttons(name):
  env = _make(name)
  env.reset()
  num_actions = env.action_spec().num_values
  assert num_actions == {
      'deadly_corridor': 8, 'deathmatch': 18, 'my_way_home': 6, 'take_cover': 3
  }.get(name, 4)
  for action in range(num_actions):
    assert _act(env, action).observation.any()
  env.close()


def test_scenario_without_game_variables_is_refused():
  env = _make('my_way_home')
  assert env.features == ()
  env.close()
  before = programs.children('vizdoom')
  with pytest.raises(config.ConfigError, match=(
      'vizdoom/my_way_home has no game variables')):
    _make('my_way_home', game_variables=True)
  assert set(programs.children('vizdoom')) <= set(before)


@pytest.mark.parametrize('options, frame, screen', [
    ({'subsample': 1}, (120, 160), (120, 160)),
    ({'resolution': '200x150', 'subsample': 4}, (38, 50), (150, 200))])
def test_size_and_repeats_are_as_configured(options, frame, screen):
  env = _make(action_repeats=10, **options)
  assert env.observation_spec().shape == frame + (3,)
  assert env.reset().observation.shape == (1,) + frame + (3,)
  assert env.render().shape == screen + (3,)
  assert env.frames_per_step == 10 and _act(env, NOTHING).reward == -10
  env.close()


def test_game_that_dies_seldom_is_started_anew_and_otherwise_named():
  before = programs.children('vizdoom')
  env = _make(num_envs=2)
  env.reset()
  for _ in range(60):
    _act(env, NOTHING)
  programs.kill([p for p in programs.children('vizdoom') if p not in before][1])
  row = _act(env, NOTHING)
  while row.step_type[1] != FIRST or row.discount[1] == 0:
    row = _act(env, NOTHING)
  assert row.observation[1].any() and row.reward[1] == 0
  games = {*programs.children('vizdoom')}.difference(before)
  assert len(games) == 2
  programs.kill(games.pop())
  with pytest.raises(
      environment.SimulatorError,
      match='^vizdoom/basic: environment [01] .* failed: .*ViZ') as error:
    for _ in range(9):
      _act(env, NOTHING)
  assert '\n' not in str(error.value)
  env.close()


_PLAY = """
import numpy as np
from impala_tf import config
from impala_tf.envs import vizdoom
env = vizdoom.VizdoomEnvironment('basic', 2, 0, config.VizdoomConfig())
env.reset()
for _ in range(100):
  env.step(np.zeros(2, np.int32))
print('playing', flush=True)
"""


@pytest.mark.parametrize('end', ['kill', 'exit', 'close'])
def test_nothing_is_left_however_the_player_ends(end, tmp_path):
  files = _files()
  temporary, working = tmp_path / 'temporary files', tmp_path / 'working'
  temporary.mkdir()
  working.mkdir()
  last = {'kill': 'input()', 'exit': '', 'close': 'env.close()'}[end]
  with programs.running(
      '-c', _PLAY + last, cwd=working, stdin=programs.PIPE,
      variables={'TMPDIR': str(temporary)}) as player:
    assert player.stdout.readline() == 'playing\n', player.stderr.read()
    if end == 'kill':
      games = programs.children('', [player.pid])
      assert len(games) == 2
      # A Ctrl-C in the player's terminal is not for them.
      assert len({os.getsid(p) for p in (player.pid, *games)}) == 3
      programs.kill(player.pid)
      programs.wait_until(
          lambda: not any(map(programs.is_alive, games)), 'games to end')
    else:
      assert player.communicate(timeout=60) == ('', '')
      assert player.returncode == 0
  assert not list(working.iterdir()) and not list(temporary.iterdir())
  # Tests that run at the same time have some for a moment, too.
  programs.wait_until(lambda: _files() <= files, 'shared memory to be gone')


def test_temporary_directory_without_programs_is_named(monkeypatch):
  monkeypatch.setattr(os, 'access', lambda path, mode: False)
  with pytest.raises(config.ConfigError, match='TMPDIR'):
    _make()
