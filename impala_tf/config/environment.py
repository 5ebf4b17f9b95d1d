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
  def episode_metric_names(self) -> list[str]:
    """Names of the numbers that `episode_metrics` asks for."""
    return [name.strip() for name in self.episode_metrics.split(',')
            if name.strip()]
