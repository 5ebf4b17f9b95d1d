"""Suites of levels, and summaries of scores on them.

A score is the mean raw return of full episodes on a level.
"""

import csv
import pathlib
import statistics
from typing import Mapping, NamedTuple

Scores = Mapping[str, float]  # By level name.


class Summary(NamedTuple):
  """A summary of human-normalised scores as fractions; the human has 1.0."""
  median: float  # Over the levels (section 5.3.2).
  mean: float
  mean_capped: float  # Each level counts as 1.0 at most (appendix B).


class Suite(NamedTuple):
  """A suite: levels that are scored together."""
  name: str  # In flags and files, such as 'atari57'.
  title: str  # For readers, such as 'Atari-57'.
  levels: tuple[str, ...]  # Scored ones, in the order of the paper's table.
  train_levels: tuple[str, ...]  # One to train on for each of `levels`.
  random: Scores  # Of a random player, by level of `levels`.
  human: Scores  # Likewise.
  # The paper's scores, by agent such as 'IMPALA (deep)' and then by level;
  # without levels that the paper has no score for.
  paper: Mapping[str, Scores]
  # The paper's summaries as fractions, by agent and then by field of `Summary`;
  # without fields that it does not print.
  published: Mapping[str, Mapping[str, float]]
  published_in: str  # The paper's table with these summaries.
  episodes: int  # Number that the paper plays for a score.
  decimals: int  # Of a score in the paper.
  note: str  # Remark for readers who compare with the paper's tables.

  def human_normalised_score(self, level: str, score: float) -> float:
    """Places a score between a random player's (0.0) and the human's (1.0).

    The fraction may be below 0 or above 1. `level` is as in `scored_level`.
    """
    level = self.scored_level(level)
    random = self.random[level]
    return (score - random) / (self.human[level] - random)

  def summary(self, scores: Scores) -> Summary:
    """Summarises the scores of all levels."""
    values = [self.human_normalised_score(level, score)
              for level, score in scores.items()]
    return Summary(
        median=statistics.median(values),
        mean=statistics.fmean(values),
        mean_capped=statistics.fmean(min(1., value) for value in values))

  def scored_level(self, level: str) -> str:
    """Returns the entry of `levels` for a scored level or a training level.

    Raises ValueError for a level outside of the suite.
    """
    if level in self.random:
      return level
    if level in self.train_levels:
      return self.levels[self.train_levels.index(level)]
    raise ValueError(f'{level!r} is no level of {self.title}; levels are named '
                     f'like {self.levels[0]}')


def read_scores(file_name: str, domain: str
                ) -> tuple[Scores, Scores, dict[str, Scores]]:
  """Reads a suite's `random`, `human` and `paper` from a CSV file.

  It lies beside this module. The first column has names of levels without the
  domain; each other is named by its player. Empty cells are left out.
  """
  path = pathlib.Path(__file__).with_name(file_name)
  with path.open(newline='', encoding='utf-8') as file:
    (_, *columns), *rows = csv.reader(file)
  scores: dict[str, Scores] = {
      column: {f'{domain}/{row[0]}': float(row[i]) for row in rows if row[i]}
      for i, column in enumerate(columns, start=1)}
  return scores.pop('random'), scores.pop('human'), scores
