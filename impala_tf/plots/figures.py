"""Figures of runs, made with matplotlib."""

import itertools
import textwrap
from typing import List, Mapping, Optional, Sequence, Tuple

import matplotlib.figure
import matplotlib.ticker

from impala_tf.plots import curves
from impala_tf.plots import pictures
from impala_tf.plots import runs as runs_lib
from impala_tf.runs import level_metrics
from impala_tf.suites import levels as levels_lib
from impala_tf.suites import suite as suite_lib

# Where the best score is more than so many times the human one, the scale is
# logarithmic beyond 1: Atari's scores span four orders of magnitude.
_LINEAR_UP_TO = 3.
_INCHES_PER_BAR = 0.1
# A score of others that would have curves fill less than this share of their
# panel is not drawn but written above it.
_LEAST_SHARE = 0.2
_HEADLINE_TITLE = 'capped mean, human-normalised'
# Longer names of levels are broken after their domain, and longer lines below
# them are wrapped: both could be cut off at the edge of the picture.
_MAX_TITLE_LENGTH = 20
_MAX_LINE_LENGTH = 28


def learning_curves(
    runs: Sequence[runs_lib.Run]) -> Optional[matplotlib.figure.Figure]:
  """Draws returns in training against frames: a panel a level, a line a run.

  Only frames of the level count, so that an agent of many levels can be
  compared with experts. On a level of a suite, scores of random play, of a
  human and of the paper's comparable agents are lines, too; scores far above
  are written above the panel. With several levels of a suite, the suite's
  headline comes first, over all frames.

  Returns None if no run has ended an episode yet.
  """
  panels: List[Tuple[str, list]] = [(_HEADLINE_TITLE, [
      (run.label, curves.points(run.rows, level_metrics.HEADLINE))
      for run in runs])]
  for level in dict.fromkeys(itertools.chain(*(run.levels for run in runs))):
    panels.append((level, [(run.label, run.curve(level))
                           for run in runs if level in run.levels]))
  panels = [panel for panel in panels if any(points for _, points in panel[1])]
  if not panels:
    return None
  figure, grid = pictures.panels(len(panels))
  styles = pictures.line_styles([run.label for run in runs])
  for axes, (title, lines) in zip(grid, panels):
    _draw_panel(axes, title, lines, styles)
    suite = levels_lib.suite_of(title)
    if suite:
      _draw_scores_of_others(axes, suite, suite.scored_level(title), [
          run for run in runs if title in run.levels])
  pictures.share_legend(figure, first=styles)
  return figure


def _draw_panel(axes, title: str, lines, styles: Mapping[str, dict]) -> None:
  for label, points in lines:
    if points:
      # A run has the same colour in all panels.
      axes.plot(*zip(*points), label=label, **styles[label])
  axes.set_title(title.replace('/', '/\n', 1)
                 if len(title) > _MAX_TITLE_LENGTH else title)
  axes.set_ylabel('score' if title == _HEADLINE_TITLE else 'return')
  pictures.label_x(axes, 'frames')


def _draw_scores_of_others(axes, suite: suite_lib.Suite, level: str,
                           runs: Sequence[runs_lib.Run]) -> None:
  """Draws the scores of others on a level, or writes them above the panel."""
  columns = [('random', suite.random, ':'), ('human', suite.human, '-.'), *(
      (f'{agent}, paper', suite.paper[agent], '--') for agent in dict.fromkeys(
          itertools.chain(*(run.paper_agents(suite) for run in runs))))]
  low, high = axes.get_ylim()
  above = []
  for name, column, line_style in columns:
    if level not in column:
      continue
    if column[level] > low + (high - low) / _LEAST_SHARE:
      above += textwrap.wrap(f'above: {name} {column[level]:,.1f}',
                             _MAX_LINE_LENGTH, break_on_hyphens=False)
      continue
    axes.axhline(column[level], color='grey', linestyle=line_style,
                 linewidth=1, label=name)
  if above:
    axes.set_title('\n'.join([axes.get_title(), *above]))


def scores(suite: suite_lib.Suite, ours: Mapping[str, suite_lib.Scores]
           ) -> matplotlib.figure.Figure:
  """Draws human-normalised scores: bars for every level, ours and the paper's.

  Args:
    suite: suite of the levels.
    ours: name of each agent to its mean raw return by level; levels of the
      suite that nobody has are left out.
  """
  levels = [level for level in suite.levels
            if any(level in column for column in ours.values())]
  columns = [*ours.items(), *(
      (f'{name}, paper', column) for name, column in suite.paper.items()
      if name.startswith('IMPALA'))]
  width = 1 / (len(columns) + 1)
  figure, ((axes,),) = pictures.grid(
      1, 1, pictures.PAGE_WIDTH,
      1.2 + _INCHES_PER_BAR * len(levels) * (len(columns) + 1))
  for i, (name, column) in enumerate(columns):
    # A level that the column lacks leaves a gap.
    axes.barh([place + i * width for place, level in enumerate(levels)
               if level in column],
              [suite.human_normalised_score(level, column[level])
               for level in levels if level in column],
              width, label=name)
  axes.set_yticks([i + width * (len(columns) - 1) / 2
                   for i in range(len(levels))],
                  [level.partition('/')[2] for level in levels])
  axes.invert_yaxis()
  axes.axvline(1, color='black', linewidth=1)  # The human.
  if axes.get_xlim()[1] > _LINEAR_UP_TO:
    axes.set_xscale('symlog', linthresh=1)
  axes.xaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1))
  axes.set_xlabel(f'human-normalised score on {suite.title}')
  axes.margins(y=0.01)
  pictures.share_legend(figure)
  return figure
