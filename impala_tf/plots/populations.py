"""Populations, read from the directories of their members, and ancestries.

An ancestry says who trained a member's present parameters, and when. Curves are
drawn "by backtracking through the ancestry of copied checkpoints for selected
instances" (Espeholt et al. 2018, appendix F).
"""

import math
import os
from typing import Mapping, NamedTuple, Sequence

from impala_tf.config import population as population_config
from impala_tf.pbt import populations
from impala_tf.pbt import rules
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import sweep_directory
from impala_tf.storage import files
from impala_tf.sweeps import results as results_lib

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


class Population(NamedTuple):
  """A population: its members' decisions and scores.

  The best member has the highest fitness at its last decision, or else the
  highest final return; it is a failed one only if all have failed.
  """
  label: str  # Such as 'catch/default/seed_1'.
  members: list[str]  # That have begun, in the config's order.
  events: dict[str, list[populations.Event]]  # Decisions by member.
  curves: dict[str, list[Point]]  # (frames, fitness) by member.
  returns: dict[str, float | None]  # Final ones by member; None if unknown.
  adapted: list[str]  # Hyper-parameters.
  best: str

  @property
  def ancestry(self) -> list[Stretch]:
    return ancestry(self.events, self.best)


def load(path: str) -> list[Population]:
  """Reads the started populations in a directory, with started members only."""
  config = gin_config.load_sweep(os.path.join(
      path, sweep_directory.POPULATION.config_name))
  groups: dict[str, dict[str, str]] = {}
  for member in sweep_directory.POPULATION.list_runs(config):
    run_dir = os.path.join(path, 'runs', member.name)
    if files.exists(gin_config.config_path(run_dir)):
      groups.setdefault(member.population, {})[member.setting] = run_dir
  return [_load(label, run_dirs) for label, run_dirs in groups.items()]


def decisions(found: Sequence[Population]) -> str:
  """Returns members' decisions as CSV, with hyper-parameters after each."""
  adapted = list(dict.fromkeys(
      name for population in found for name in population.adapted))
  return results_lib.as_csv([
      ('population', 'member', 'evolution', 'frames', 'updates', 'score',
       'partner', 'partner_score', 'is_copy', *adapted),
      *((population.label, member, event.evolution, event.frames,
         event.updates, event.score, event.partner, event.partner_score,
         int(event.is_copy), *map(event.after.get, adapted))
        for population in found for member in population.members
        for event in population.events[member])])


def ancestry(events: Events, member: str) -> list[Stretch]:
  """Lists the stretches that trained a member's parameters, oldest first."""
  stretches: list[Stretch] = []
  end: float = math.inf
  decisions = events[member]
  followed: list[populations.Event] = []
  while copies := [i for i, event in enumerate(decisions) if event.is_copy]:
    copied = decisions[copies[-1]]
    # An elder may have been deleted, and may have trained anew since it was
    # copied, so that its own ancestry would lead back here.
    if copied.partner not in events or copied in followed:
      break
    followed.append(copied)
    stretches.insert(0, Stretch(
        member, copied.frames, end, tuple(decisions[copies[-1]:])))
    # It was published after the elder's decision of that number.
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


def _load(label: str, run_dirs: dict[str, str]) -> Population:
  config = gin_config.load(
      gin_config.config_path(next(iter(run_dirs.values()))))
  rows = {name: metrics.read_rows(run_dir)
          for name, run_dir in run_dirs.items()}
  events = {name: populations.read_events(run_dir)
            for name, run_dir in run_dirs.items()}
  returns = {name: results_lib.final_return(rows[name]) for name in run_dirs}
  references = rules.find_references(config)
  curves = {name: metrics.points(rows[name], metrics.HEADLINE)
            if len(references) > 1 else [
                (frames, rules.fitness([value], references)) for frames, value
                in metrics.points(rows[name], 'episode_return')]
            for name in run_dirs}

  def rank(name):
    fitness = events[name][-1].fitness if events[name] else -math.inf
    final = -math.inf if returns[name] is None else returns[name]
    return not populations.has_failed(run_dirs[name]), fitness, final

  return Population(
      label, list(run_dirs), events, curves, returns,
      [name for name in population_config.ADAPTABLE
       if name in config.population.adapted_names],
      max(run_dirs, key=rank))
