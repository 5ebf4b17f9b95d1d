"""Figures of a population, in the form of figures 5 and F.1 of the paper."""

import math
from typing import List, Sequence, Tuple

import matplotlib.figure
import matplotlib.ticker

from impala_tf.pbt import lineage
from impala_tf.plots import pictures
from impala_tf.plots import populations

_PALE = {'color': 'grey', 'alpha': 0.4, 'linewidth': 0.8, 'linestyle': '-'}
_DARK = {'color': pictures.COLOURS[0], 'linewidth': 2., 'linestyle': '-'}
_COPY = {'color': pictures.COLOURS[1], 'linewidth': 0.8}


def draw(population: populations.Population) -> matplotlib.figure.Figure:
  """Draws curves, schedules, family tree and copies of a population.

  The best member's ancestry is drawn boldly: its curve by backtracking (figure
  5), and each hyper-parameter along it (figure F.1). Pale lines are members as
  they trained. A member must have logged rows.
  """
  figure, panels = pictures.panels(3 + len(population.adapted))
  _draw_curves(panels[0], population)
  for axes, name in zip(panels[1:], population.adapted):
    _draw_schedule(axes, population, name)
  _draw_tree(panels[-2], population)
  _draw_copies(panels[-1], population)
  for axes in panels:
    axes.set_xlim(0, _last_frames(population))
    pictures.label_x(axes, 'frames')
  pictures.share_legend(figure)
  return figure


def _last_frames(population: populations.Population) -> float:
  """Returns the most frames in any member's rows."""
  return max((curve[-1][0] for curve in population.curves.values() if curve),
             default=1.)


def _draw_curves(axes, population: populations.Population) -> None:
  for curve in population.curves.values():
    if curve:
      axes.plot(*zip(*curve), label='a member', **_PALE)
  points = lineage.backtracked(population.ancestry, population.curves)
  if points:
    axes.plot(*zip(*points), label="the best one's ancestry", **_DARK)
  axes.set_title('fitness')


def _draw_schedule(axes, population: populations.Population,
                   name: str) -> None:
  for member in population.members:
    alone = [lineage.Stretch(
        member, 0, math.inf, tuple(population.events[member]))]
    _draw_steps(axes, population, lineage.values_along(alone, name), _PALE)
  _draw_steps(axes, population,
              lineage.values_along(population.ancestry, name), _DARK)
  axes.set_yscale('log')
  axes.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
  axes.set_title(name.replace('_', ' '))


def _draw_steps(axes, population: populations.Population,
                points: Sequence[Tuple[float, float]], style: dict) -> None:
  """Draws values that hold until the next, the last one to the end."""
  if points:
    x, y = zip(*points, (_last_frames(population), points[-1][1]))
    axes.plot(x, y, drawstyle='steps-post', **style)


def _draw_tree(axes, population: populations.Population) -> None:
  """Draws a line for each member, and an arrow for each copy."""
  rows = {name: i for i, name in enumerate(population.members)}
  last = _last_frames(population)
  for name, i in rows.items():
    axes.plot([0, last], [i, i], **_PALE)
    for event in population.events[name]:
      if event.is_copy:
        axes.annotate(
            '', (event.frames, i), (event.frames, rows[event.partner]),
            arrowprops={'arrowstyle': '->', **_COPY})
  x: List[float] = []
  y: List[float] = []
  for stretch in population.ancestry:
    x += [stretch.start, min(stretch.end, last)]
    y += [rows[stretch.member]] * 2
  axes.plot(x, y, **_DARK)
  axes.set_yticks(list(rows.values()), list(rows), fontsize='xx-small')
  axes.invert_yaxis()
  axes.set_title('family tree')


def _draw_copies(axes, population: populations.Population) -> None:
  for what, label, style in (
      (lambda event: True, 'decisions', _PALE),
      (lambda event: event.is_copy, 'copies', _COPY)):
    frames = sorted(event.frames for events in population.events.values()
                    for event in events if what(event))
    x = [0, *frames, _last_frames(population)]
    axes.plot(x, [*range(len(frames) + 1), len(frames)],
              drawstyle='steps-post', label=label, **style)
  axes.set_title('decisions, copies')
