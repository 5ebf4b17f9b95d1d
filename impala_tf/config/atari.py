"""Options of Atari."""

import dataclasses

from impala_tf.config import fields


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
      together need. Those that a game lacks (half in Skiing) are no-ops.
    sticky_action_probability: probability that the last action is repeated.
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
