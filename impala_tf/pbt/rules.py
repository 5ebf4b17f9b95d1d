"""The rules of population based training (Espeholt et al. 2018, appendix F).

A member that is ready draws another. If the other's fitness leads by more than
`copy_margin`, its parameters and hyper-parameters are copied. Then each adapted
hyper-parameter mutates with `mutation_probability` (see `PopulationConfig`).
All random numbers come from `generator`.
"""

import random
from typing import Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.suites import levels as levels_lib

# Rounding of two means must not make a lead of exactly the margin a larger one.
_ROUNDING = 1e-9


class Reference(NamedTuple):
  """Reference scores of a level: mean raw returns of full episodes."""
  random: float  # Of fitness 0.
  human: float  # Of fitness 1.


def find_references(config: config_lib.Config) -> list[Reference]:
  """Finds the reference scores of all levels of a run, in their order.

  Levels of Atari-57 and DMLab-30 have those of their suites; any other level
  needs `PopulationConfig.random_score` and `human_score`. Raises ConfigError if
  a level has no reference scores.
  """
  levels = levels_lib.expand(config.environment.level)
  found = []
  for level in levels:
    suite = levels_lib.suite_of(level)
    if suite is not None:
      scored = suite.scored_level(level)
      found.append(Reference(suite.random[scored], suite.human[scored]))
      continue
    low = config.population.random_score
    high = config.population.human_score
    if len(levels) > 1 or low is None or high is None or low == high:
      raise config_lib.ConfigError(
          f'{level} is of no suite with reference scores, by which members of '
          'a population are compared; set PopulationConfig.random_score and '
          'human_score, two different mean returns, or among several levels '
          f'name those of {" or ".join(levels_lib.SUITES)} only')
    found.append(Reference(low, high))
  return found


def generator(seed: int, member: int, evolution: int) -> random.Random:
  """Makes the random generator for one decision of a member."""
  return random.Random(f'{seed},{member},{evolution}')


def fitness(returns: Sequence[float], references: Sequence[Reference]) -> float:
  """Computes the mean capped human-normalised score (table G.1).

  With raw returns s_l and references r_l and h_l it is the mean over l of
  min[1, (s_l - r_l) / (h_l - r_l)]; may be negative.
  """
  return sum(
      min(1., (score - level.random) / (level.human - level.random))
      for score, level in zip(returns, references, strict=True)
  ) / len(returns)


def draw_partner(others: Sequence[str], rng: random.Random) -> str:
  """Draws a partner from `others`, not empty, with one number of `rng`."""
  return others[int(rng.random() * len(others))]


def exploit(own_score: float, other_score: float, margin: float) -> bool:
  """Returns whether the other member leads by more than an absolute margin."""
  return other_score - own_score > margin + _ROUNDING


def explore(values: Mapping[str, float], rng: random.Random,
            probability: float, factor: float) -> dict[str, float]:
  """Mutates hyper-parameters, each by itself and without bias: E ln f = 0.

  Each takes two numbers of `rng`, whatever the order of `values`. With the
  given probability it is multiplied or divided by `factor`, with even odds.
  """
  mutated = dict(values)
  for name in sorted(values):
    is_mutated, is_raised = rng.random() < probability, rng.random() < 0.5
    if is_mutated:
      mutated[name] *= factor if is_raised else 1 / factor
  return mutated
