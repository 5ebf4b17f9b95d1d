"""Draws human-normalised scores of all Atari games that were trained here.

    python -m lab.figures.aggregate docs/aggregate.png

Two panels show how fast they rise, one their distribution over games at the end
(performance profile, Agarwal et al. 2021, section 4.2). A game's score is the
mean of its longest runs with few frames, not those by table G.1.
"""

import pathlib
import sys

import numpy as np

from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.plots import intervals
from impala_tf.plots import pictures
from impala_tf.runs import metrics
from impala_tf.suites import levels as levels_lib
from lab.figures import score_tables

_RUNS = pathlib.Path(__file__).parents[2] / 'testdata' / 'atari'
_LONGEST = {'pong': 'seed_*'}  # Of the other games '40_million*'.
_SUITE = levels_lib.SUITES['atari57']
_NUM_POINTS = 200
_LEAST = 0.01  # Share of a human's score, below which the axes end.


def curves(x: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
  """Returns P values of 'frames' or 'secs', and each game's scores [P] there.

  They are means over seeds, each of the last 100 training games. A run that has
  ended keeps its last.
  """
  runs = {}
  for directory in sorted(_RUNS.iterdir()):
    if directory.is_dir():
      runs[directory.name] = [
          [(row[x], _SUITE.human_normalised_score(
              f'atari/{directory.name}', row['episode_return']))
           for row in metrics.read_rows(str(run))
           if row.get('episode_return') is not None]
          for run in directory.glob(
              _LONGEST.get(directory.name, '40_million*'))]
  last = max(rows[-1][0] for of_game in runs.values() for rows in of_game)
  points = np.geomspace(last / _NUM_POINTS, last, _NUM_POINTS)
  return points, {game: np.mean([np.interp(points, *np.transpose(rows))
                                 for rows in of_game], axis=0)
                  for game, of_game in runs.items()}


def draw():
  """Draws the three panels and returns the figure."""
  figure, (by_frames, by_time, profile) = pictures.panels(3)
  for axes, x in (by_frames, 'frames'), (by_time, 'secs'):
    points, scores = curves(x)
    for score in scores.values():
      axes.plot(points, score, color='0.7', linewidth=0.8, label='each game')
    values = np.array(list(scores.values()))
    axes.plot(points, np.median(values, axis=0),
              color=pictures.COLOURS[0], linestyle='-', label='median')
    axes.plot(points, intervals.interquartile_mean(values),
              color=pictures.COLOURS[2], linestyle='-',
              label='interquartile mean')
    axes.set_yscale('log')
    axes.set_ylim(_LEAST, None)
    axes.axhline(1, color='black', linewidth=0.8, linestyle=':', label='human')
    pictures.label_x(axes, x)
  by_frames.set_ylabel('human-normalised score')
  shares = np.geomspace(_LEAST, 20, _NUM_POINTS)
  papers = [_SUITE.human_normalised_score(
      f'atari/{game}', _SUITE.paper[score_tables.PAPERS][f'atari/{game}'])
            for game in scores]
  for finals, colour, label in (
      (values[:, -1], 'black', 'here'),
      (papers, pictures.COLOURS[1], "the paper's, 200 million frames")):
    profile.step(shares, np.mean(np.array(finals)[:, None] > shares, axis=0),
                 color=colour, linestyle='-', label=label)
  profile.set_xscale('log')
  profile.set_xlabel('score τ')
  profile.set_ylabel('share of games above τ')
  pictures.share_legend(figure)
  return figure


def main() -> None:
  """Writes the picture named on the command line."""
  parser = command_line.Parser(
      prog='lab.figures.aggregate', description=__doc__)
  parser.add_argument('picture', metavar='OUT.png')
  path = parser.parse_args().picture
  pictures.save(draw(), path)


if __name__ == '__main__':
  sys.exit(program.run(main))
