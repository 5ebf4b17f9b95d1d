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
        is another task at 100 times the reward, to combine with 'catch'.
      'cartpole_swingup': a hanging pole is to be swung up and balanced.
      'tmaze/<length>': a signal to remember for so many steps, at most 1000.
      'minigrid/<id>', without its 'MiniGrid-': 'minigrid/DoorKey-5x5-v0'.
      'babyai/<id>' likewise; missions: see `AgentConfig.instruction_length`.
      'dmlab30/<name>', a task of DMLab-30: 'dmlab30/rooms_watermaze'.
      'dmlab/<name>' for other levels of Lab: 'dmlab/seekavoid_arena_01'.
      'vizdoom/<scenario>' needs the extra 'vizdoom'.
      'control/<domain>/<task>' of dm_control's suite, the extra 'dm_control'.
      'gym/<id>' of Gymnasium; MuJoCo's need the extra 'mujoco', yours need a
        file that registers them (docs/own_environment.md).
      'dm_env/<module>:<function>', a function of a module that you import
        (--import) and that returns a `dm_env.Environment`.
    kwargs: arguments by name for 'gym/<id>' environments and 'dm_env'
      functions, such as {'size': 7}: numbers, strings, True, False, None, and
      lists and dicts of these.
    converted: True: bounded actions are scaled to [-1, 1], pictures to 0 to
      255 with channels last. Action masks are read from a Dict observation or
      a method `action_masks`, too. False: no conversion.
    reward_scale: factor of all rewards that agents get; returns in logs and
      scores are without it. For rewards that are small beside
      `ImpalaConfig.entropy_cost`, or too large for values to follow.
    episode_metrics: keys, with commas between them, of the `info` at the last
      step of a 'gym/<id>' episode, such as 'is_success,score'; columns
      'episode/<name>' have the means of these numbers.
  """
  level: str = fields.option('atari/pong')
  # It can be compared, but a dict has no hash.
  kwargs: dict = dataclasses.field(default_factory=dict, hash=False)
  converted: bool = fields.option(True)
  reward_scale: float = fields.option(1.0, above=0)
  episode_metrics: str = fields.option('')

  @property
  def episode_metric_names(self) -> list[str]:
    """Names in `episode_metrics`, as a list."""
    return [name.strip() for name in self.episode_metrics.split(',')
            if name.strip()]
