"""VizDoom (Kempka et al. 2016): first-person levels on the engine of Doom.

The package vizdoom is imported lazily. Its `DoomGame` is used directly: through
Gymnasium a step takes three times as long. Statements about VizDoom here hold
for vizdoom 1.3.2 and are tested.
"""

import os
import pathlib
import shlex
import sys
import tempfile

from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import domain
from impala_tf.envs import environment
from impala_tf.envs import serial

# The package's other scenarios need sound, messages on the screen, several
# players or games that are not free.
NAMES = (
    'basic', 'deadly_corridor', 'deathmatch', 'defend_the_center',
    'defend_the_line', 'health_gathering', 'health_gathering_supreme',
    'my_way_home', 'predict_position', 'rocket_basic', 'simpler_basic',
    'take_cover')

# Program that is started in place of Doom and becomes Doom. By itself Doom
# would write into the working directory and die of a Ctrl-C for this process.
# It would wait for ever once this process is killed. 1 is PR_SET_PDEATHSIG
# (<linux/prctl.h>); the parent may have died before it is set.
_LAUNCHER = """
import ctypes, os, signal, sys
directory, parent, doom, *arguments = sys.argv[1:]
os.chdir(directory)
os.setsid()
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(parent):
  os.execv(doom, [doom] + arguments)
"""
_VARIABLES_UNIT = 100.  # Full health, which becomes 1.
_SHARED_MEMORY = pathlib.Path('/dev/shm')


def check_name(name: str) -> None:
  """Raises ConfigError for an unknown scenario, or if vizdoom is missing."""
  domain.check_known(name, 'vizdoom/{}', NAMES, f'there are {", ".join(NAMES)}')
  domain.check_installed('vizdoom', 'VizDoom')


class VizdoomEnvironment(serial.SerialEnvironment):
  """E games of one scenario, each a process of Doom, played in turn.

  Action 0 does nothing; action i holds the scenario's i-th button for
  `action_repeats` frames, whose raw rewards are summed. ('vizdoom/basic': 1
  left, 2 right, 3 attack.) Buttons that take an amount, as in 'deathmatch', are
  left out.

  The observation is the last frame in colour, uint8 [H, W, 3]: every
  `subsample`-th pixel of every `subsample`-th row. Doom would draw the same at
  that size, since it does not smooth. With `game_variables` the scenario's
  variables, such as health, are its features, divided by 100.

  A scenario's time limit truncates. Doom shows nothing then: the frame before
  is the last. All other ends, such as a death, have discount 0. No processes or
  files stay behind, however this process ends.
  """

  def __init__(self, name: str, num_envs: int, seed: int,
               config: config_lib.VizdoomConfig):
    """Starts the games; raises ConfigError if they fail or lack variables."""
    import vizdoom  # Lazily: it is a simulator.
    level = f'vizdoom/{name}'

    games = serial.Simulators(
        lambda i, game_seed: _start_game(vizdoom, name, config, game_seed),
        num_envs, seed, f'{level}: Doom')
    num_variables = 0
    if config.game_variables:
      num_variables = games[0].get_available_game_variables_size()
      if not num_variables:
        games.close()
        raise config_lib.ConfigError(
            f'{level} has no game variables; set VizdoomConfig.game_variables '
            '= False')
    num_buttons = games[0].get_available_buttons_size()
    # One row for each action.
    self._buttons = np.eye(num_buttons + 1, num_buttons, k=-1, dtype=int
                           ).tolist()
    self._subsample = config.subsample
    # The slice keeps the last pixel of a size that is no multiple, too.
    height, width = (-(-pixels // config.subsample) for pixels in (
        games[0].get_screen_height(), games[0].get_screen_width()))
    shape = (height, width, 3)
    super().__init__(
        level, games, environment.discrete(len(self._buttons)),
        observation_spec=specs.Array(shape, np.uint8, 'observation'),
        frames_per_step=config.action_repeats, num_features=num_variables)
    self.frames_per_sec = vizdoom.DEFAULT_TICRATE
    # Environment 0's last frame in full, for videos.
    self._screen: np.ndarray

  def _begin(self, i: int) -> np.ndarray:
    self._simulators[i].new_episode()
    return self._observe(i)

  def _advance(self, i: int, action: int) -> serial.Transition:
    game = self._simulators[i]
    reward = game.make_action(self._buttons[action], self.frames_per_step)
    if not game.is_episode_finished():
      return serial.Transition(self._observe(i), reward, False, False)
    # Doom looks at the clock only: a death at that time is no timeout.
    truncated = game.is_episode_timeout_reached() and not game.is_player_dead()
    return serial.Transition(
        self._observation[i], reward, not truncated, truncated)

  def _observe(self, i: int) -> np.ndarray:
    state = self._simulators[i].get_state()
    screen = state.screen_buffer
    if len(self.features):
      self.features[i] = state.game_variables / _VARIABLES_UNIT
    if i == 0:
      self._screen = screen
    return screen[::self._subsample, ::self._subsample]

  def render(self) -> np.ndarray:
    """Returns environment 0's last observed frame, with all of its pixels."""
    return self._screen.copy()


def _write_launcher(directory: str, doom: str) -> str:
  """Writes a program to `directory` that starts `doom`; returns its path.

  Raises ConfigError if programs there may not be run, since VizDoom would end
  this process with a segmentation fault.
  """
  launcher = pathlib.Path(directory, 'launcher')
  command = shlex.join([sys.executable, '-IS', '-c', _LAUNCHER, directory,
                        str(os.getpid()), doom])
  launcher.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
  launcher.chmod(0o700)
  if not os.access(launcher, os.X_OK):
    raise config_lib.ConfigError(
        f'VizDoom levels need a directory for temporary files that programs '
        f'may be run from, but {tempfile.gettempdir()} is none; name another '
        'in the environment variable TMPDIR')
  return str(launcher)


def _start_game(vizdoom, name: str, config: config_lib.VizdoomConfig,
                seed: int):
  game = vizdoom.DoomGame()
  game.load_config(os.path.join(vizdoom.scenarios_path, f'{name}.cfg'))
  game.set_available_buttons(
      [button for button in game.get_available_buttons()
       if not vizdoom.is_delta_button(button)])
  game.set_screen_resolution(
      vizdoom.ScreenResolution.__members__[f'RES_{config.resolution.upper()}'])
  game.set_screen_format(vizdoom.ScreenFormat.RGB24)
  game.set_mode(vizdoom.Mode.PLAYER)  # Doom waits for its player.
  game.set_window_visible(False)
  game.set_sound_enabled(False)
  # Some scenarios switch these buffers on. They cost time and are not used.
  for switch in (game.set_depth_buffer_enabled, game.set_labels_buffer_enabled,
                 game.set_automap_buffer_enabled, game.set_objects_info_enabled,
                 game.set_sectors_info_enabled, game.set_audio_buffer_enabled):
    switch(False)
  game.set_doom_config_path(os.devnull)  # Doom writes it on each close.
  game.set_seed(seed)
  with tempfile.TemporaryDirectory(prefix='vizdoom') as directory:
    game.set_vizdoom_path(_write_launcher(directory, vizdoom.exe_path))
    game.init()
  # Both processes have their shared memory (10 MB) open now. If killed, this
  # one would leave it behind in the file system.
  for path in _SHARED_MEMORY.glob(f'ViZDoom*{game.get_instance_id()}'):
    path.unlink(missing_ok=True)
  return game


DOMAIN = domain.Domain(
    forms=('vizdoom/<scenario>',), check=check_name,
    make=lambda name, num_envs, seed, config, training: VizdoomEnvironment(
        name, num_envs, seed, config.vizdoom))
