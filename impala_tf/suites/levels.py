"""The levels that a run plays, from its config."""

from impala_tf import config as config_lib
from impala_tf.suites import atari57
from impala_tf.suites import dmlab30
from impala_tf.suites import suite as suite_lib

SUITES: dict[str, suite_lib.Suite] = {
    suite.name: suite for suite in (atari57.SUITE, dmlab30.SUITE)}


def expand(level: str) -> tuple[str, ...]:
  """Lists the levels of a run in order, one for each task of the agent.

  `level` is that of `EnvironmentConfig`. Whether levels exist is not checked.
  Raises ConfigError for a list with a gap, a suite within it, or a level twice.
  """
  if level in SUITES:
    return SUITES[level].train_levels
  levels = tuple(name.strip() for name in level.split(','))
  if len(levels) == 1:
    return levels
  for name in levels:
    if not name or name in SUITES or levels.count(name) > 1:
      raise config_lib.ConfigError(
          f'EnvironmentConfig.level: {name!r} in {level!r} is wrong; a list '
          'has each level once, between commas, and no suite')
  return levels


def short_name(level: str) -> str:
  """Returns a short name for messages, as 'atari/pong and 5 more'."""
  levels = expand(level)
  if level in SUITES or len(levels) == 1:
    return level
  return f'{levels[0]} and {len(levels) - 1} more'


def suite_of(level: str) -> suite_lib.Suite | None:
  """Returns the suite that trains or scores on a level, or None."""
  return next((suite for suite in SUITES.values()
               if level in (*suite.levels, *suite.train_levels)), None)
