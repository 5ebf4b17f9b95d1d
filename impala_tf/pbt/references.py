"""Reference scores of a run's levels, by which fitness is measured."""

from typing import List

from impala_tf import config as config_lib
from impala_tf.pbt import rules
from impala_tf.suites import levels as levels_lib


def find(config: config_lib.Config) -> List[rules.Reference]:
  """Finds the reference scores of all levels of a run, in their order.

  Levels of Atari-57 and DMLab-30 have those of their suites; any other level
  needs `PopulationConfig.random_score` and `human_score`.

  Args:
    config: config of a run.

  Raises:
    ConfigError: where a level has no reference scores.
  """
  levels = levels_lib.expand(config.environment.level)
  found = []
  for level in levels:
    suite = levels_lib.suite_of(level)
    if suite is None:
      found.append(_configured(config.population, level, len(levels)))
    else:
      scored = suite.scored_level(level)
      found.append(rules.Reference(suite.random[scored], suite.human[scored]))
  return found


def _configured(population: config_lib.PopulationConfig, level: str,
                num_levels: int) -> rules.Reference:
  """Returns the scores of the only level; raises ConfigError without them."""
  if num_levels > 1:
    raise config_lib.ConfigError(
        f'{level} is of no suite with reference scores, by which members of a '
        'population are compared; among several levels each must be of '
        f'{" or ".join(levels_lib.SUITES)}')
  random, human = population.random_score, population.human_score
  if random is None or human is None or random == human:
    raise config_lib.ConfigError(
        f'{level} is of no suite with reference scores, by which members of a '
        'population are compared; set PopulationConfig.random_score and '
        'human_score, two different mean returns')
  return rules.Reference(random, human)
