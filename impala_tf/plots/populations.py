"""Populations, read from the directories of their members."""

import math
import os
from typing import NamedTuple, Sequence

from impala_tf.config import population as population_config
from impala_tf.pbt import lineage
from impala_tf.pbt import populations
from impala_tf.pbt import rules
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import sweep_directory
from impala_tf.storage import files
from impala_tf.sweeps import results as results_lib


class Population(NamedTuple):
  """A population: its members' decisions and scores.

  The best member has the highest fitness at its last decision, or else the
  highest final return; it is a failed one only if all have failed.
  """
  label: str  # Such as 'catch/default/seed_1'.
  members: list[str]  # That have begun, in the config's order.
  events: dict[str, list[populations.Event]]  # Decisions by member.
  curves: dict[str, list[tuple[float, float]]]  # (frames, fitness) by member.
  returns: dict[str, float | None]  # Final ones by member; None if unknown.
  adapted: list[str]  # Hyper-parameters.
  best: str

  @property
  def ancestry(self) -> list[lineage.Stretch]:
    return lineage.ancestry(self.events, self.best)


def load(path: str) -> list[Population]:
  """Reads the populations in a directory that have begun."""
  config = gin_config.load_sweep(os.path.join(
      path, sweep_directory.POPULATION.config_name))
  groups: dict[str, dict[str, str]] = {}
  for member in sweep_directory.POPULATION.list_runs(config):
    run_dir = os.path.join(path, 'runs', member.name)
    if files.exists(gin_config.config_path(run_dir)):
      groups.setdefault(member.population, {})[member.setting] = run_dir
  return [_load(label, run_dirs) for label, run_dirs in groups.items()]


def decisions(found: Sequence[Population]) -> str:
  """Returns the decisions of all members as CSV, with values after each."""
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
