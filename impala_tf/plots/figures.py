"""Figures of runs, made with matplotlib."""

import itertools
import math
import textwrap
from typing import Any, Mapping, Sequence

import matplotlib.figure
import matplotlib.ticker

from impala_tf.plots import pictures
from impala_tf.plots import populations
from impala_tf.plots import runs as runs_lib
from impala_tf.runs import metrics
from impala_tf.suites import levels as levels_lib
from impala_tf.suites import suite as suite_lib

# Beyond so many times the human score, the scale is logarithmic from 1 on:
# Atari's scores span four orders of magnitude.
_LINEAR_UP_TO = 3.
_INCHES_PER_BAR = 0.1
# A score of others beside which curves would fill a smaller share of their
# panel is written above it.
_LEAST_SHARE = 0.2
_HEADLINE_TITLE = 'capped mean, human-normalised'
# Longer names of levels are broken after their domain, and longer lines below
# them are wrapped, lest the edge of the picture cuts them off.
_MAX_TITLE_LENGTH = 20
_MAX_LINE_LENGTH = 24
_PALE = {'color': 'grey', 'alpha': 0.4, 'linewidth': 0.8, 'linestyle': '-'}
_PAPER_STYLES = '--', (0, (10, 3)), (0, (3, 1, 1, 1, 1, 1))  # Of its agents.
_DARK = {'color': pictures.COLOURS[0], 'linewidth': 2., 'linestyle': '-'}
_COPY = {'color': pictures.COLOURS[1], 'linewidth': 0.8}


def learning_curves(
    runs: Sequence[runs_lib.Run]) -> matplotlib.figure.Figure | None:
  """Draws training returns over frames: a panel per level, a line per run.

  Only frames of the level count, so that an agent of many levels can be
  compared with experts. Returns None if no run has ended an episode yet.
  """
  panels: list[tuple[str, list]] = [(_HEADLINE_TITLE, [
      (run.label, metrics.points(run.rows, metrics.HEADLINE))
      for run in runs])]
  for level in dict.fromkeys(itertools.chain(*(run.levels for run in runs))):
    # The panel's title has the level already.
    prefix = level.partition('/')[2] + '/'
    panels.append((level, [
        (run.label if len(run.levels) > 1 else run.label.removeprefix(prefix),
         run.curve(level)) for run in runs if level in run.levels]))
  panels = [panel for panel in panels if any(points for _, points in panel[1])]
  if not panels:
    return None
  figure, grid = pictures.panels(len(panels))
  styles = pictures.line_styles(list(dict.fromkeys(
      label for _, lines in panels for label, _ in lines)))
  for axes, (title, lines) in zip(grid, panels):
    for label, points in lines:
      if points:
        axes.plot(*zip(*points), label=label, **styles[label])
    axes.set_title(title.replace('/', '/\n', 1)
                   if len(title) > _MAX_TITLE_LENGTH else title)
    axes.set_ylabel('score' if title == _HEADLINE_TITLE else 'return')
    pictures.label_x(axes, 'frames')
    if suite := levels_lib.suite_of(title):
      _draw_scores_of_others(axes, suite, suite.scored_level(title), [
          run for run in runs if title in run.levels])
  pictures.share_legend(figure, first=styles)
  return figure


def _draw_scores_of_others(axes, suite: suite_lib.Suite, level: str,
                           runs: Sequence[runs_lib.Run]) -> None:
  """Draws random, human and paper scores, or writes high ones above."""
  agents = set().union(*(run.paper_agents(suite) for run in runs))
  columns = [('random', suite.random, ':'), ('human', suite.human, '-.'), *(
      (f'{agent}, paper', suite.paper[agent], style)
      for agent, style in zip(suite.paper, itertools.cycle(_PAPER_STYLES))
      if agent in agents)]
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
  """Draws bars of human-normalised scores, ours and the paper's, by level."""
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


def population(members: populations.Population) -> matplotlib.figure.Figure:
  """Draws curves, schedules, family tree and copies of a population.

  Bold lines are the best member's ancestry: its curve by backtracking (figure
  5), and each hyper-parameter along it (figure F.1). Pale lines are members.
  """
  figure, panels = pictures.panels(3 + len(members.adapted))
  _draw_curves(panels[0], members)
  for axes, name in zip(panels[1:], members.adapted):
    _draw_schedule(axes, members, name)
  _draw_tree(panels[-2], members)
  _draw_copies(panels[-1], members)
  for axes in panels:
    axes.set_xlim(0, _last_frames(members))
    pictures.label_x(axes, 'frames')
  pictures.share_legend(figure)
  return figure


def _last_frames(population: populations.Population) -> float:
  return max((curve[-1][0] for curve in population.curves.values() if curve),
             default=1.)


def _draw_curves(axes, population: populations.Population) -> None:
  for curve in population.curves.values():
    if curve:
      axes.plot(*zip(*curve), label='a member', **_PALE)
  points = populations.backtracked(population.ancestry, population.curves)
  if points:
    axes.plot(*zip(*points), label="the best one's ancestry", **_DARK)
  axes.set_title('fitness')


def _draw_schedule(axes, population: populations.Population, name: str) -> None:
  for member in population.members:
    alone = [populations.Stretch(
        member, 0, math.inf, tuple(population.events[member]))]
    _draw_steps(axes, population, populations.values_along(alone, name), _PALE)
  _draw_steps(axes, population,
              populations.values_along(population.ancestry, name), _DARK)
  axes.set_yscale('log')
  axes.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
  axes.set_title(name.replace('_', ' '))


def _draw_steps(axes, population: populations.Population,
                points: Sequence[tuple[float, float]],
                style: Mapping[str, Any]) -> None:
  """Draws a step curve whose last value holds to the population's end."""
  if points:
    x, y = zip(*points, (_last_frames(population), points[-1][1]))
    axes.plot(x, y, drawstyle='steps-post', **style)


def _draw_tree(axes, population: populations.Population) -> None:
  rows = {name: i for i, name in enumerate(population.members)}
  last = _last_frames(population)
  for name, i in rows.items():
    axes.plot([0, last], [i, i], **_PALE)
    for event in population.events[name]:
      if event.is_copy and event.partner in rows:
        axes.annotate(
            '', (event.frames, i), (event.frames, rows[event.partner]),
            arrowprops={'arrowstyle': '->', **_COPY})
  x: list[float] = []
  y: list[float] = []
  for stretch in population.ancestry:
    x += [stretch.start, min(stretch.end, last)]
    y += [rows[stretch.member]] * 2
  axes.plot(x, y, **_DARK)
  axes.set_yticks(list(rows.values()), list(rows), fontsize='xx-small')
  axes.invert_yaxis()
  axes.set_title('family tree')


def _draw_copies(axes, population: populations.Population) -> None:
  events = [event for member in population.events.values() for event in member]
  for counted, label, style in (
      (events, 'decisions', _PALE),
      ([event for event in events if event.is_copy], 'copies', _COPY)):
    frames = sorted(event.frames for event in counted)
    _draw_steps(axes, population, [*zip([0, *frames], itertools.count())],
                {**style, 'label': label})
  axes.set_title('decisions, copies')
