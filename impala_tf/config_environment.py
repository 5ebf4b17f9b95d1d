"""Knobs of what is played, and of what is played again.

These are levels, the settings of simulators, and the replay.

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
      'dmlab/<name>' for other levels of Lab: 'dmlab/seekavoid_arena_01'.
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
      (brady_konkle_oliva2008), or 'dummy' for plain colours in their place;
      None: there are none.
    level_cache_dir: directory of compiled maps, shared by all processes and
      kept between runs; it grows to 5 GB. None: each map is compiled anew.
    num_seeds: number of different episodes that training has of each level, so
      that maps come again, which are cached then; None: 2^31 - 1, as in the
      published code. Evaluation always has as many others.
  """
  action_repeats: int = _knob(4, at_least=1, unit='frames', source='table D.3')
  height: int = _knob(72, at_least=36, unit='pixels', source='table D.3')
  width: int = _knob(96, at_least=36, unit='pixels', source='table D.3')
  renderer: str = _knob('software', choices=('software', 'hardware'))
  dataset_path: Optional[str] = _knob(None)
  level_cache_dir: Optional[str] = _knob('~/.cache/impala_tf/dmlab_maps')
  num_seeds: Optional[int] = _knob(
      None, at_least=1, at_most=2**31 - 1, unit='episodes',
      source='published code')


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


@dataclasses.dataclass(frozen=True)
class ReplayConfig(config_fields.Section):
  """Learning again from old unrolls (section 5.2.2).

  Attributes:
    replay_fraction: share of each batch that is sampled from the replay, which
      must be a whole number of unrolls; 0 for no replay. Replayed unrolls do
      not count as frames.
    pacing_unrolls: new unrolls that come, count as frames and enter the replay
      for each update where all of its batch is replayed, so that
      `replay_fraction` is 1; else None.
    capacity_unrolls: unrolls that the replay holds; the oldest make room for
      the newest.
    sampling: 'unrolls', each as likely; 'episodes', each as likely, of which
      the unrolls follow one by one; or 'priorities', by the critic's loss.
    episode_unrolls: most unrolls in an episode that is sampled as such, longer
      ones are cut. The replay holds `capacity_unrolls` / `episode_unrolls`
      episodes, however short, so no more than necessary.
    core_state: memory with which a replayed unroll begins: 'stored', as the
      actor had it, or 'recomputed' by the newest parameters, from the episode's
      start on; needs sampling by episodes.
    priority_exponent: alpha; unrolls are sampled by the power of their loss.
    priority_correction: beta; updates are weighted by 1 / P**beta.
    survives_resume: write the replay with every checkpoint, which takes as much
      room on disk as in memory, so that a resumed run has it again.
  """
  replay_fraction: float = _knob(
      0.0, at_least=0, at_most=1, source='section 5.2.2')
  pacing_unrolls: Optional[int] = _knob(
      None, at_least=1, source='Schmitt et al. 2020, figure 2')
  capacity_unrolls: int = _knob(10_000, at_least=1, source='table D.3')
  sampling: str = _knob(
      'unrolls', choices=('unrolls', 'episodes', 'priorities'),
      source='Schmitt et al. 2020, supplement 1.2')
  episode_unrolls: int = _knob(32, at_least=1)
  core_state: str = _knob('stored', choices=('stored', 'recomputed'),
                          source='Schmitt et al. 2020, supplement 1.2')
  priority_exponent: float = _knob(
      0.6, at_least=0, source='Schaul et al. 2016, table 3')
  priority_correction: float = _knob(
      1.0, at_least=0, at_most=1, source='Schmitt et al. 2020, supplement 1.2')
  survives_resume: bool = _knob(False)
