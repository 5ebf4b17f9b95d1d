"""Knobs of what is played: levels and the settings of simulators.

`config` has all other sections, and these under the same names. Standard
library only.
"""

import dataclasses
from typing import Optional

from impala_tf import config_fields

_knob = config_fields.knob


@dataclasses.dataclass(frozen=True)
class EnvironmentConfig(config_fields.Section):
  """Tasks that are played.

  Attributes:
    level: task of one agent. A suite, 'atari57' or 'dmlab30'; several levels
      with commas between them; or one of
      'atari/<game>' in snake case: 'atari/space_invaders'.
      'catch'; 'catch/delayed' pays for five balls in one sum; 'catch/mirrored'
        is another task at 100 times the reward, to be learned beside it.
      'cartpole_swingup': a hanging pole is to be swung up and balanced.
      'tmaze/<length>': a signal is to be remembered for so many steps, to 1000.
      'minigrid/<id>', without its 'MiniGrid-': 'minigrid/DoorKey-5x5-v0'.
      'babyai/<id>' likewise; missions: see `AgentConfig.instruction_length`.
      'dmlab30/<name>', a task of DMLab-30: 'dmlab30/rooms_watermaze'.
      'vizdoom/<scenario>' of that package, the extra 'vizdoom'.
      'control/<domain>/<task>' of dm_control's suite, the extra 'dm_control'.
      'gym/<id>' of Gymnasium; MuJoCo's need the extra 'mujoco', your own a
        file that registers them (docs/own_environment.md).
    kwargs: arguments by name for the constructors of 'gym/<id>' environments,
      such as {'size': 7}: numbers, strings, True, False, None, and lists and
      dicts of these.
  """
  level: str = _knob('atari/pong')
  kwargs: dict = config_fields.data_knob()


@dataclasses.dataclass(frozen=True)
class AtariConfig(config_fields.Section):
  """Settings of Atari (pre-processing: Mnih et al. 2016; table G.1).

  Attributes:
    action_repeats: emulator frames an action is held.
    frame_stack: frames in an observation.
    height, width: size of an observation.
    noop_max: an episode starts with 1 to this many no-op frames.
    max_episode_frames: games are truncated here, no-ops not counted (108,000
      are 30 minutes).
    life_loss_ends_episode: in training, a lost life gives discount 0 while the
      game goes on. Evaluation ignores it.
    full_action_set: all 18 actions instead of the game's own, as several games
      together need; what a game lacks (half of them in Skiing) is a no-op.
    sticky_action_probability: probability that the emulator repeats the last
      action.
  """
  action_repeats: int = _knob(4, at_least=1, unit='frames', source='table G.1')
  frame_stack: int = _knob(
      4, at_least=1, at_most=8, unit='frames', source='table G.1')
  height: int = _knob(84, at_least=36, unit='pixels', source='table G.1')
  width: int = _knob(84, at_least=36, unit='pixels', source='table G.1')
  noop_max: int = _knob(30, at_least=0, unit='frames', source='section 5.3.2')
  max_episode_frames: int = _knob(108_000, at_least=1)
  life_loss_ends_episode: bool = _knob(True, source='table G.1')
  full_action_set: bool = _knob(False, source='appendix G')
  sticky_action_probability: float = _knob(
      0.0, at_least=0, below=1, source='Machado et al. 2018')


@dataclasses.dataclass(frozen=True)
class DmlabConfig(config_fields.Section):
  """Settings of DeepMind Lab (table D.3).

  Attributes:
    action_repeats: frames an action is held.
    height, width: size of an observation.
    renderer: 'software' needs no GPU, 'hardware' does.
    dataset_path: directory of the photographs that two psychlab levels show
      (brady_konkle_oliva2008); None: there are none.
    level_cache_dir: directory of compiled maps, to be shared by all processes
      and kept between runs; None: each map is compiled anew.
  """
  action_repeats: int = _knob(4, at_least=1, unit='frames', source='table D.3')
  height: int = _knob(72, at_least=36, unit='pixels', source='table D.3')
  width: int = _knob(96, at_least=36, unit='pixels', source='table D.3')
  renderer: str = _knob('software', choices=('software', 'hardware'))
  dataset_path: Optional[str] = _knob(None)
  level_cache_dir: Optional[str] = _knob(None)


@dataclasses.dataclass(frozen=True)
class VizdoomConfig(config_fields.Section):
  """Settings of VizDoom, which the paper does not have.

  Attributes:
    action_repeats: frames (35 are a second) an action is held.
    resolution: width x height in pixels at which Doom draws. The smallest is
      the fastest. Those of 16:9 have a wider field of view.
    subsample: n, to keep every n-th pixel of every n-th row: 2 makes 80 x 60 of
      160 x 120.
  """
  action_repeats: int = _knob(
      4, at_least=1, unit='frames', source='Kempka et al. 2016')
  resolution: str = _knob('160x120', unit='pixels', choices=(
      '160x120', '200x150', '256x144', '256x192', '320x180', '320x240',
      '400x225', '400x300', '512x288', '512x384', '640x360', '640x480'))
  subsample: int = _knob(2, at_least=1, at_most=8, unit='pixels')
