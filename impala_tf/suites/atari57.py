"""The 57 Atari games: level names, reference scores, the normalised score.

The scores belong to the protocol of Espeholt et al. 2018, table C.1: up to 30
no-ops at the start of a game, raw rewards.
"""

import csv
import pathlib
from typing import Dict


def _read_scores(column: str) -> Dict[str, float]:
  path = pathlib.Path(__file__).with_name('atari57_scores.csv')
  with path.open(newline='', encoding='utf-8') as file:
    return {f'atari/{row["game"]}': float(row[column])
            for row in csv.DictReader(file)}


# By level name ('atari/pong'), in alphabetical order.
RANDOM_SCORES = _read_scores('random')
HUMAN_SCORES = _read_scores('human')
LEVELS = tuple(RANDOM_SCORES)


def human_normalised_score(level: str, score: float) -> float:
  """Places a score between a random player's (0.0) and the human's (1.0).

  Args:
    level: one of `LEVELS`.
    score: mean raw return of full games.

  Returns:
    A fraction, not a percentage; below 0 and above 1 are possible.

  Raises:
    ValueError: for a level outside of the suite.
  """
  if level not in RANDOM_SCORES:
    raise ValueError(
        f'{level!r} is no level of Atari-57; levels are named like atari/pong')
  random = RANDOM_SCORES[level]
  return (score - random) / (HUMAN_SCORES[level] - random)
