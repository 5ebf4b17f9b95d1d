"""Options of the levels that are played, and of their simulators."""

import dataclasses
from typing import List, Optional

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class EnvironmentConfig(fields.Section):
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
      'gym/<id>' of Gymnasium; MuJoCo's need the extra 'mujoco', yours a file
        that registers them (docs/own_environment.md).
      'dm_env/<module>:<function>', a function of a module that you import
        (--import) and that returns a `dm_env.Environment`.
    kwargs: arguments by name for 'gym/<id>' environments and 'dm_env'
      functions, such as {'size': 7}: numbers, strings, True, False, None, and
      lists and dicts of these.
    converted: whether bounded continuous actions are scaled to [-1, 1],
      pictures to the range of bytes with their channels last, and masks found
      wherever other libraries have them. False: all is taken in the
      environment's own units, as in runs from before this option.
    reward_scale: factor of all rewards that agents get; returns in logs and
      scores are without it. For rewards that are small beside
      `ImpalaConfig.entropy_cost`, or too large for values to follow.
    episode_metrics: names of numbers, with commas between them, in the `info`
      of the last step of 'gym/<id>' episodes, such as 'is_success,score'; their
      means are columns 'episode/<name>' beside the return.
  """
  level: str = fields.option('atari/pong')
  # It can be compared, but a dict has no hash.
  kwargs: dict = dataclasses.field(default_factory=dict, hash=False)
  converted: bool = fields.option(True)
  reward_scale: float = fields.option(1.0, above=0)
  episode_metrics: str = fields.option('')

  @property
  def episode_metric_names(self) -> List[str]:
    """Names of the numbers that `episode_metrics` asks for."""
    return [name.strip() for name in self.episode_metrics.split(',')
            if name.strip()]


@dataclasses.dataclass(frozen=True)
class AtariConfig(fields.Section):
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
      together need. Actions that a game lacks (half of them in Skiing) are
      no-ops.
    sticky_action_probability: probability that the emulator repeats the last
      action.
  """
  action_repeats: int = fields.option(
      4, at_least=1, unit='frames', source='table G.1')
  frame_stack: int = fields.option(
      4, at_least=1, at_most=8, unit='frames', source='table G.1')
  height: int = fields.option(
      84, at_least=36, unit='pixels', source='table G.1')
  width: int = fields.option(84, at_least=36, unit='pixels', source='table G.1')
  noop_max: int = fields.option(
      30, at_least=0, unit='frames', source='section 5.3.2')
  max_episode_frames: int = fields.option(108_000, at_least=1)
  life_loss_ends_episode: bool = fields.option(True, source='table G.1')
  full_action_set: bool = fields.option(False, source='appendix G')
  sticky_action_probability: float = fields.option(
      0.0, at_least=0, below=1, source='Machado et al. 2018')


@dataclasses.dataclass(frozen=True)
class DmlabConfig(fields.Section):
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
    num_seeds: different episodes of each level in training. With few, maps come
      again and are cached. None: 2^31 - 1, as in the published code. Evaluation
      always has as many others.
  """
  action_repeats: int = fields.option(
      4, at_least=1, unit='frames', source='table D.3')
  height: int = fields.option(
      72, at_least=36, unit='pixels', source='table D.3')
  width: int = fields.option(96, at_least=36, unit='pixels', source='table D.3')
  renderer: str = fields.option('software', choices=('software', 'hardware'))
  dataset_path: Optional[str] = fields.option(None)
  level_cache_dir: Optional[str] = fields.option(
      '~/.cache/impala_tf/dmlab_maps')
  num_seeds: Optional[int] = fields.option(
      None, at_least=1, at_most=2**31 - 1, unit='episodes',
      source='published code')


@dataclasses.dataclass(frozen=True)
class VizdoomConfig(fields.Section):
  """Settings of VizDoom, which the paper does not have.

  Attributes:
    action_repeats: frames (35 are a second) an action is held.
    resolution: width x height in pixels at which Doom draws. The smallest is
      the fastest. Those of 16:9 have a wider field of view.
    subsample: n, to keep every n-th pixel of every n-th row: 2 makes 80 x 60 of
      160 x 120.
    game_variables: whether the scenario's numbers, such as health and
      ammunition, are observed beside the picture, in hundreds.
  """
  action_repeats: int = fields.option(
      4, at_least=1, unit='frames', source='Kempka et al. 2016')
  resolution: str = fields.option('160x120', unit='pixels', choices=(
      '160x120', '200x150', '256x144', '256x192', '320x180', '320x240',
      '400x225', '400x300', '512x288', '512x384', '640x360', '640x480'))
  subsample: int = fields.option(2, at_least=1, at_most=8, unit='pixels')
  game_variables: bool = fields.option(False)
