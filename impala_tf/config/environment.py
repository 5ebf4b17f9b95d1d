"""Options of the level that is played."""

import dataclasses

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
      'gym/<id>' of Gymnasium; MuJoCo's need the extra 'mujoco', your own a
        file that registers them (docs/own_environment.md).
    kwargs: arguments by name for the constructors of 'gym/<id>' environments,
      such as {'size': 7}: numbers, strings, True, False, None, and lists and
      dicts of these.
    converted: whether bounded continuous actions are scaled to [-1, 1],
      pictures to the range of bytes with their channels last, and masks found
      wherever other libraries have them. False: all is taken in the
      environment's own units, as in runs from before there was this option.
  """
  level: str = fields.option('atari/pong')
  # It can be compared, but a dict has no hash.
  kwargs: dict = dataclasses.field(default_factory=dict, hash=False)
  converted: bool = fields.option(True)
