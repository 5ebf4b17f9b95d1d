"""Trains populations, here or on a Ray cluster.

The file has the form of a sweep's: each task, variant and seed has a
population, with a member for each setting. Members are training runs that copy
better ones and change their hyper-parameters meanwhile (appendix F of the
paper). If --jobs is below the number of members, these take turns.
After a decision a member makes room for the one with the fewest frames. Members
that share a replay train all at once. Populations train one after the other.
The same command resumes. If some members fail, the others are run to their
ends.
"""

import contextlib
import os
import shlex
from typing import Mapping, Sequence

from impala_tf import config as config_lib
from impala_tf.cli import program
from impala_tf.cli import sweep
from impala_tf.pbt import populations
from impala_tf.plots import populations as plots_lib
from impala_tf.plots import tables
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from impala_tf.runs import sweep_directory
from impala_tf.runtime import batch
from impala_tf.runtime import wording
from impala_tf.storage import files
from impala_tf.sweeps import plan as plan_lib


class Turns(batch.Turns):
  """A schedule in which each population member trains until a decision.

  A population gets places once all members of earlier ones have one. It can
  evolve only while its members train side by side, or nearly so.
  """
  max_deaths = 3

  def __init__(self, members: Mapping[str, plan_lib.Member],
               run_dirs: Mapping[str, str]):
    """Stores members, in the order of populations, and run directories."""
    self._populations = {name: m.population for name, m in members.items()}
    self._order = list(dict.fromkeys(self._populations.values()))
    self._run_dirs = run_dirs
    self._rows = {name: metrics.RowReader(run_dir)
                  for name, run_dir in run_dirs.items()}
    self._frames = dict.fromkeys(run_dirs, 0)
    self._evolutions: dict[str, int] = {}

  def choose(self, waiting: Sequence[str]) -> str:
    for name in waiting:
      # The member will say it.
      with contextlib.suppress(config_lib.UserError, OSError):
        for row in self._rows[name].new_rows()[-1:]:
          self._frames[name] = row['frames']
    return min(waiting, key=lambda name: (
        self._order.index(self._populations[name]), self._frames[name]))

  def begin(self, name: str) -> None:
    self._evolutions[name] = self._evolution(name)

  def should_yield(self, name: str, waiting: Sequence[str]) -> bool:
    population = self._populations[name]
    return self._evolution(name) > self._evolutions[name] and any(
        self._populations[other] == population for other in waiting)

  def _evolution(self, name: str) -> int:
    published = populations.read_published(self._run_dirs[name])
    return published.evolution if published else 0


class Program(sweep.Program):
  """A program that trains members of populations, in turns or all at once."""
  kind = sweep_directory.POPULATION

  def check(self, runs):
    agents = {}
    for member, loaded in runs:
      agent = (config_lib.data_fingerprint(loaded), loaded.experiment.algorithm,
               loaded.optimizer.max_gradient_norm is None,
               loaded.optimizer.bias_correction,
               loaded.impala.popart_step_size is None, loaded.population)
      if agents.setdefault(member.population, agent) != agent:
        raise config_lib.ConfigError(
            f'members of {member.population} differ in network, level, '
            'algorithm, length of unrolls, PopulationConfig, or in whether '
            'they have PopArt, clipping or bias_correction, in which members '
            'must agree; bind these in variants or fixed, not in ranges or '
            'points')

  def begin(self, runs, run_dirs):
    for run_dir in run_dirs.values():
      populations.set_failed(run_dir, False)
    return Turns(runs, run_dirs)

  def note_failure(self, run_dir):
    populations.set_failed(run_dir, True)

  def show(self, config, path, results):
    best = {}
    for population in plots_lib.load(path):
      name = population.best
      run_dir = os.path.join('runs', population.label, name)
      full_path = os.path.join(path, run_dir)
      events = population.events[name]
      best[population.label] = {
          'member': name, 'run_dir': run_dir,
          'checkpoint': run_directory.newest_checkpoint(full_path),
          'fitness': events[-1].fitness if events else None,
          'final_return': population.returns[name]}
      print(f'\n{population.label}\n{tables.population(population)}\n'
            f'Best: {full_path}')
    best_path = os.path.join(path, sweep_directory.BEST)
    files.write_json(best_path, best)
    print(f'\nBest members: {best_path}; pictures: '
          f'{wording.command("report")} {shlex.quote(path)}')


@program.returning_exit_code
def main() -> int:
  """Trains the populations; returns the exit code."""
  return Program().run(__doc__)
