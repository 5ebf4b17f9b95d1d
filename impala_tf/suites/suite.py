"""What a suite of levels is, and how scores on it are summed up.

A score is the mean raw return of full episodes on a level.
"""

import csv
import pathlib
import statistics
from typing import Dict, Mapping, NamedTuple, Tuple

Scores = Mapping[str, float]  # By level name.


class Summary(NamedTuple):
  """Sums of human-normalised scores, as fractions: 1.0 is the human's.

  Attributes:
    median: over the levels (section 5.3.2).
    mean: over the levels.
    mean_capped: the mean where no level counts more than 1.0 (appendix B).
  """
  median: float
  mean: float
  mean_capped: float


class Suite(NamedTuple):
  """Levels that are scored together.

  Attributes:
    name: as flags and files have it, 'atari57'.
    title: as people have it, 'Atari-57'.
    levels: those that are scored, in the order of the paper's table.
    train_levels: what is trained on for each of them.
    random: a random player's scores by level of `levels`.
    human: likewise.
    paper: the paper's columns, 'IMPALA (deep)' for one, each of them by level;
      where the paper has none, neither has the column.
    published: sums that the paper prints, by agent, as fractions: of the fields
      of `Summary` those that it has.
    published_in: which of its tables does.
    episodes: how many the paper plays for a score.
    decimals: of a score, as the paper prints it.
    package: what levels of the suite need to be importable.
    install: how to get it.
    note: what to know when tables are compared with the paper's.
  """
  name: str
  title: str
  levels: Tuple[str, ...]
  train_levels: Tuple[str, ...]
  random: Scores
  human: Scores
  paper: Mapping[str, Scores]
  published: Mapping[str, Mapping[str, float]]
  published_in: str
  episodes: int
  decimals: int
  package: str
  install: str
  note: str

  def human_normalised_score(self, level: str, score: float) -> float:
    """Places a score between a random player's (0.0) and the human's (1.0).

    Args:
      level: one of `levels` or of `train_levels`, which have the references of
        the level they are trained for.
      score: mean raw return of full episodes.

    Returns:
      A fraction, not a percentage; below 0 and above 1 are possible.

    Raises:
      ValueError: for a level outside of the suite.
    """
    level = self.scored_level(level)
    random = self.random[level]
    return (score - random) / (self.human[level] - random)

  def summary(self, scores: Scores) -> Summary:
    """Sums up a score on every level.

    Args:
      scores: by level; of those that differ, the one that was trained on or the
        one that is scored.

    Raises:
      ValueError: where a level is missing, there twice, or of another suite.
    """
    by_level = {}
    for level, score in scores.items():
      scored = self.scored_level(level)
      if scored in by_level:
        raise ValueError(f'{level!r} is there twice: it was trained on for '
                         f'{scored!r}, so give one of the two')
      by_level[scored] = self.human_normalised_score(level, score)
    missing = [level for level in self.levels if level not in by_level]
    if missing:
      raise ValueError(f'{len(missing)} of {len(self.levels)} levels of '
                       f'{self.title} are missing: {", ".join(missing)}')
    values = by_level.values()
    return Summary(
        median=statistics.median(values),
        mean=statistics.fmean(values),
        mean_capped=statistics.fmean(min(1., value) for value in values))

  def scored_level(self, level: str) -> str:
    """The one of `levels` that a level is, or is trained on for.

    Raises:
      ValueError: for a level outside of the suite.
    """
    if level in self.random:
      return level
    if level in self.train_levels:
      return self.levels[self.train_levels.index(level)]
    raise ValueError(f'{level!r} is no level of {self.title}; levels are named '
                     f'like {self.levels[0]}')


def read_columns(file_name: str, domain: str) -> Dict[str, Dict[str, float]]:
  """Reads a file beside this one: level names first, then a column each.

  Args:
    file_name: 'atari57_scores.csv'.
    domain: what stands before the names, as in 'atari/pong'.

  Returns:
    By column and level; empty cells are left out.
  """
  path = pathlib.Path(__file__).with_name(file_name)
  with path.open(newline='', encoding='utf-8') as file:
    (_, *columns), *rows = csv.reader(file)
  return {
      column: {f'{domain}/{row[0]}': float(row[i])
               for row in rows if row[i]}
      for i, column in enumerate(columns, start=1)}
