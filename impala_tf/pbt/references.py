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
    if suite is not None:
      scored = suite.scored_level(level)
      found.append(rules.Reference(suite.random[scored], suite.human[scored]))
      continue
    random = config.population.random_score
    human = config.population.human_score
    if len(levels) > 1 or random is None or human is None or random == human:
      raise config_lib.ConfigError(
          f'{level} is of no suite with reference scores, by which members of '
          'a population are compared; set PopulationConfig.random_score and '
          'human_score, two different mean returns, or among several levels '
          f'name those of {" or ".join(levels_lib.SUITES)} only')
    found.append(rules.Reference(random, human))
  return found
