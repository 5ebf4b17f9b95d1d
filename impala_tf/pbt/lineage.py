"""Ancestry of a member: who trained its present parameters, and when.

Curves of a population are drawn "by backtracking through the ancestry of copied
checkpoints for selected instances" (appendix F). Pure functions.
"""

import math
from typing import Mapping, NamedTuple, Sequence

from impala_tf.pbt import populations

Events = Mapping[str, Sequence[populations.Event]]  # By member, oldest first.
Point = tuple[float, float]


class Stretch(NamedTuple):
  """A stretch of an ancestry: training by one member."""
  member: str  # Name of the member that trained.
  # Its frames when it began: 0, or its frames when it copied its elder.
  start: float
  end: float  # Its frames at the end; infinity for the last stretch.
  # Its decisions within, first the one at `start`, if any.
  events: tuple[populations.Event, ...]


def ancestry(events: Events, member: str) -> list[Stretch]:
  """Traces a member's present parameters back to the start, oldest first."""
  stretches: list[Stretch] = []
  end: float = math.inf
  decisions = events[member]
  while copies := [i for i, event in enumerate(decisions) if event.is_copy]:
    copied = decisions[copies[-1]]
    stretches.insert(0, Stretch(
        member, copied.frames, end, tuple(decisions[copies[-1]:])))
    # The copied checkpoint was published after the elder's decision of that
    # number. Each such step leads to an earlier time, so that there is an end.
    assert copied.partner_evolution is not None  # It was a copy.
    assert copied.partner_frames is not None
    member, end = copied.partner, copied.partner_frames
    decisions = events[member][:copied.partner_evolution]
  return [Stretch(member, 0, end, tuple(decisions)), *stretches]


def backtracked(stretches: Sequence[Stretch],
                curves: Mapping[str, Sequence[Point]]) -> list[Point]:
  """Joins the curve of an ancestry, from each member's (frames, value) points.

  If an elder was ahead of the member that copied it, the curve continues with
  the younger one's points. All points are in the order of frames.
  """
  points: list[Point] = []
  for stretch in stretches:
    points = [point for point in points if point[0] <= stretch.start]
    points += [point for point in curves[stretch.member]
               if stretch.start < point[0] <= stretch.end]
  return points


def values_along(stretches: Sequence[Stretch], name: str) -> list[Point]:
  """Lists the values of a hyper-parameter along an ancestry (figure F.1).

  Points (frames, value), at which each value began, are in the order of frames;
  there are none before the first decision.
  """
  points: list[Point] = []
  for stretch in stretches:
    points = [point for point in points if point[0] <= stretch.start]
    for event in stretch.events:
      if not points:
        points.append((0, event.before[name]))
      points.append((event.frames, event.after[name]))
  return points
