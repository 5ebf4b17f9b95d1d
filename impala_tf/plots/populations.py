"""Populations, as the directories of their members hold them."""

import csv
import io
import json
import os
from typing import Dict, List, NamedTuple, Sequence, Tuple

from impala_tf import config as config_lib
from impala_tf.config import population as population_config
from impala_tf.pbt import lineage
from impala_tf.pbt import populations
from impala_tf.pbt import records
from impala_tf.pbt import references
from impala_tf.pbt import rules
from impala_tf.plots import curves
from impala_tf.runs import gin_config
from impala_tf.runs import level_metrics
from impala_tf.runs import sweep_directory
from impala_tf.storage import files


class Population(NamedTuple):
  """A population: what its members decided, and how well they were.

  Attributes:
    label: name, such as 'catch/default/seed_1'.
    members: names of those that have begun, in the config's order.
    events: decisions by member.
    curves: points (frames, fitness) of training by member.
    adapted: names of the hyper-parameters that are adapted.
    failed: names of the members that have failed for good.
    named_best: name of the best member in `best.json`; '' where that does not
      exist yet.
  """
  label: str
  members: List[str]
  events: Dict[str, List[records.Event]]
  curves: Dict[str, List[Tuple[float, float]]]
  adapted: List[str]
  failed: List[str]
  named_best: str = ''

  @property
  def best(self) -> str:
    """Name of the best member.

    It is that of `best.json`. As long as there is none, it is the one with the
    highest fitness at its last decision; one that has failed is best only where
    all have.
    """
    if self.named_best:
      return self.named_best

    def rank(member):
      events = self.events[member]
      fitness = events[-1].fitness if events else -float('inf')
      return member not in self.failed, fitness

    return max(self.members, key=rank)

  @property
  def ancestry(self) -> List[lineage.Stretch]:
    """Ancestry of the best member."""
    return lineage.ancestry(self.events, self.best)


def is_directory(path: str) -> bool:
  """Tells whether a directory is that of `launch/population.sh`."""
  return files.exists(os.path.join(
      path, sweep_directory.POPULATION.config_name))


def load(path: str) -> List[Population]:
  """Reads the populations in a directory that have begun.

  Raises:
    UserError: where none has.
  """
  config = gin_config.load_sweep(os.path.join(
      path, sweep_directory.POPULATION.config_name))
  groups: Dict[str, Dict[str, str]] = {}
  for member in sweep_directory.POPULATION.list_runs(config, None):
    run_dir = os.path.join(path, 'runs', member.name)
    if files.exists(gin_config.config_path(run_dir)):
      groups.setdefault(member.population, {})[member.setting] = run_dir
  if not groups:
    raise config_lib.UserError(
        f'no member of {path} has begun yet; let it train')
  best = _read_best(os.path.join(path, sweep_directory.BEST))
  return [_load(label, run_dirs, best.get(label, ''))
          for label, run_dirs in groups.items()]


def decisions(found: Sequence[Population]) -> str:
  """Returns the decisions of all members as CSV, a row each.

  After `is_copy` there is a column for each adapted hyper-parameter, with its
  value after the decision.
  """
  adapted = list(dict.fromkeys(
      name for population in found for name in population.adapted))
  text = io.StringIO()
  writer = csv.writer(text, lineterminator='\n')
  writer.writerow(['population', 'member', 'evolution', 'frames', 'updates',
                   'score', 'partner', 'partner_score', 'is_copy', *adapted])
  for population in found:
    for member in population.members:
      for event in population.events[member]:
        writer.writerow([
            population.label, member, event.evolution, event.frames,
            event.updates, event.score, event.partner, event.partner_score,
            int(event.is_copy), *(event.after.get(name) for name in adapted)])
  return text.getvalue()


def _read_best(path: str) -> Dict[str, str]:
  """Reads the name of each population's best member; none without a file."""
  if not files.exists(path):
    return {}
  return {label: best['member'] for label, best in json.loads(
      files.read(path)).items()}


def _load(label: str, run_dirs: Dict[str, str], best: str) -> Population:
  configs = {name: gin_config.load(gin_config.config_path(run_dir))
             for name, run_dir in run_dirs.items()}
  adapted = next(iter(configs.values())).population.adapted_names
  return Population(
      label, list(run_dirs),
      {name: populations.read_events(run_dir)
       for name, run_dir in run_dirs.items()},
      {name: _fitness_curve(run_dir, configs[name])
       for name, run_dir in run_dirs.items()},
      [name for name in population_config.ADAPTABLE if name in adapted],
      [name for name, run_dir in run_dirs.items()
       if populations.has_failed(run_dir)], best)


def _fitness_curve(run_dir: str, config: config_lib.Config
                   ) -> List[Tuple[float, float]]:
  """Returns a run's capped normalised score against its frames."""
  rows = curves.read_rows(run_dir)
  scores = references.find(config)
  if len(scores) > 1:
    return curves.points(rows, level_metrics.HEADLINE)
  return [(frames, rules.fitness([value], scores))
          for frames, value in curves.points(rows, 'episode_return')]
