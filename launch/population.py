"""Trains populations, here or on a Ray cluster; see `launch/population.sh`.

A file of a sweep is that of populations, too: each task, variant and seed has
one, with a member for each setting. Members are training runs that copy better
ones and change their hyper-parameters meanwhile (appendix F of the paper).
Where there is no place for all of a population, its members take turns: one
that has decided makes room for the one with the fewest frames. Members that
share a replay train all at once. Populations train one after the other. The
same command resumes.

Exit codes: 0 all members are finished, 1 some have failed (the others were run
to their ends), 2 bad input, 130 Ctrl-C, 143 asked to terminate.
"""

import argparse
import json
import os
import shlex
import sys
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from impala_tf import config as config_lib
from impala_tf import config_fingerprint
from impala_tf.monitoring import metrics
from impala_tf.population import records
from impala_tf.processes import user_modules
from impala_tf.storage import files
from impala_tf.storage import populations
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib
from launch.processes import batch
from launch.ray_cluster import engine
from launch.run import command_line
from launch.run import gin_config
from launch.run import program
from launch.run import run_directory
from launch.run import sharing
from launch.run import sweep_directory
from launch.run import sweep_progress

_KIND = sweep_directory.POPULATION


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(prog='population.sh', description=__doc__)
  parser.add_argument('population', metavar='FILE.gin',
                      help='what to run, as configs/populations/ has it')
  parser.add_argument(_KIND.flag, required=True,
                      help='where members and results go; existing populations '
                      'are resumed')
  program.add_import(parser)
  parser.add_argument('--retry_failed', action='store_true',
                      help='also resume members that have failed')
  engine.add_flags(parser, _KIND.flag)
  return parser.parse_args()


def load_members(config: plan_lib.SweepConfig
                 ) -> Tuple[Dict[str, config_lib.Config], bool]:
  """Reads the config of each task and member.

  Args:
    config: config of the populations.

  Returns:
    Config of each task, and whether each member is a single process.

  Raises:
    ConfigError: where a member could not work, or could not copy another.
  """
  tasks, members = sweep_directory.load_runs(config, _KIND)
  agents = {}
  for member, loaded in members:
    agent = (config_fingerprint.of_unrolls(loaded),
             loaded.experiment.algorithm,
             loaded.optimizer.max_gradient_norm is None)
    if agents.setdefault(member.population, agent) != agent:
      raise config_lib.ConfigError(
          f'members of {member.population} differ in network, level, algorithm '
          'or length of unrolls, so that none could copy another; let ranges '
          'and points bind numbers of OptimizerConfig and ImpalaConfig, and '
          'variants all else')
  return tasks, all(loaded.experiment.in_process for _, loaded in members)


class _Turns(batch.Turns):
  """Turns of a population's members, each of which trains until it decides.

  A population gets places once all members of those before it have one: it can
  evolve only while its members train side by side, or nearly so.
  """
  max_deaths = 3

  def __init__(self, members: Mapping[str, plan_lib.Member],
               run_dirs: Mapping[str, str]):
    """Begins with what the members have learned so far.

    Args:
      members: members by name, those of the first population first.
      run_dirs: directory of each member's run, by its name.
    """
    self._members = members
    populations_in_order = dict.fromkeys(m.population for m in members.values())
    self._order = {name: i for i, name in enumerate(populations_in_order)}
    self._run_dirs = run_dirs
    self._rows = {name: metrics.RowReader(run_dir)
                  for name, run_dir in run_dirs.items()}
    self._frames = dict.fromkeys(run_dirs, 0)
    self._evolutions: Dict[str, int] = {}

  def choose(self, waiting: Sequence[str]) -> str:
    for name in waiting:
      for row in self._rows[name].new_rows()[-1:]:
        self._frames[name] = row['frames']
    return min(waiting, key=lambda name: (
        self._order[self._members[name].population], self._frames[name]))

  def begin(self, name: str) -> None:
    self._evolutions[name] = self._evolution(name)

  def is_over(self, name: str, waiting: Sequence[str]) -> bool:
    population = self._members[name].population
    return any(self._members[other].population == population
               for other in waiting) and (
                   self._evolution(name) > self._evolutions[name])

  def _evolution(self, name: str) -> int:
    published = populations.read_published(self._run_dirs[name])
    return published.evolution if published else 0


class _Member:
  """A member as the table shows it."""

  def __init__(self, result: results_lib.Result, run_dir: str):
    self.result = result
    self.run_dir = run_dir
    self.published: Optional[records.Published] = (
        populations.read_published(run_dir))
    self.copies = [event for event in populations.read_events(run_dir)
                   if event.is_copy]

  @property
  def rank(self) -> tuple:
    """Fitness or, where that is not known yet, return; failed ones last."""
    is_well = self.result.status != results_lib.FAILED
    score = self.published.score if self.published else -float('inf')
    final = self.result.final_return
    return is_well, score, -float('inf') if final is None else final

  def row(self) -> List[str]:
    """Returns the member's line of the table."""
    result, published = self.result, self.published
    values = published.hyperparameters if published else {}
    return [
        result.run.setting, result.status, f'{result.frames or 0:,d}',
        f'{published.score:.3f}' if published else '-',
        '-' if result.final_return is None else f'{result.final_return:.2f}',
        str(published.evolution if published else 0), str(len(self.copies)),
        self.copies[-1].partner if self.copies else '-',
        ', '.join(f'{name} {value:.3g}' for name, value in values.items())]


def _group(directory: sweep_directory.SweepDirectory
           ) -> Dict[str, List[_Member]]:
  """Groups members by population, the best first."""
  ended = {result.run[:-1]: result for result in directory.results()}
  found: Dict[str, List[_Member]] = {}
  for run in directory.runs:
    run_dir = directory.run_dir(run)
    # Members that rest between two turns have no result yet.
    result = ended.get(run[:-1]) or results_lib.result(
        run, results_lib.INTERRUPTED, '', metrics.read_rows(run_dir))
    found.setdefault(run.population, []).append(_Member(result, run_dir))
  return {name: sorted(members, key=lambda member: member.rank, reverse=True)
          for name, members in found.items()}


def summary(members: Sequence[_Member]) -> str:
  """Returns a table with a line for each member of a population."""
  return sweep_progress.table([
      ['member', 'status', 'frames', 'fitness', 'return', 'decisions', 'copies',
       'last copied', 'hyper-parameters'], *(m.row() for m in members)])


def _write_best(path: str, groups: Mapping[str, Sequence[_Member]]) -> None:
  """Writes which member of each population is the best, and where it is."""
  best = {}
  for name, (first, *_) in groups.items():
    best[name] = {
        'member': first.result.run.setting,
        'run_dir': os.path.relpath(first.run_dir, os.path.dirname(path)),
        'checkpoint': run_directory.newest_checkpoint(first.run_dir),
        'fitness': first.published.score if first.published else None,
        'final_return': first.result.final_return}
  files.write(path, (json.dumps(best, indent=2) + '\n').encode())


def _show(directory: sweep_directory.SweepDirectory,
          population_dir: str) -> None:
  """Prints a table of each population, and writes which member is its best."""
  groups = _group(directory)
  for name, members in groups.items():
    print(f'\n{name}\n{summary(members)}')
    print(f'Best: {members[0].run_dir}')
  best_path = os.path.join(population_dir, sweep_directory.BEST)
  _write_best(best_path, groups)
  print(f'\nBest members: {best_path}; pictures: ./launch/report.sh '
        f'{shlex.quote(population_dir)}')


def _run(args: argparse.Namespace) -> int:
  program.check_reverb()
  engine.check_flags(args)
  config = gin_config.load_sweep(args.population)
  groups = plan_lib.groups(config, plan_lib.members(config))
  engine.enter_private_network(
      args, 'launch.population', has_servers=bool(groups))
  user_modules.load(args.modules)
  tasks, in_process = load_members(config)
  sharing.check(config, groups)
  at_least = sharing.num_together(groups)
  with engine.connected(
      args, in_process, args.population_dir, at_least) as host, (
          sweep_directory.claim(
              args.population_dir, config, tasks, _KIND)) as directory:
    all_members = {run.name: run for run in directory.runs}
    to_do = directory.runs_to_do(args.retry_failed)
    run_dirs = {run.name: directory.run_dir(run) for run in to_do}
    for run_dir in run_dirs.values():
      populations.set_failed(run_dir, False)
    print(f'{len(to_do)} of {len(all_members)} members to do in '
          f'{args.population_dir}, {host.num_jobs} at a time', flush=True)
    progress = sweep_progress.Progress(
        len(all_members) - len(to_do), len(all_members))

    def on_end(name: str, ended: batch.Ended):
      status = sweep_progress.status(ended)
      if status == results_lib.FAILED:
        populations.set_failed(run_dirs[name], True)
      progress.show(directory.record(all_members[name], status, ended.error))

    shared = sharing.plan(groups, to_do, directory, host.address)
    signum = host.make_batch(directory).run(
        sharing.commands(shared, to_do, directory), on_end,
        _Turns(all_members, run_dirs), sharing.batch_groups(shared, directory))
    _show(directory, args.population_dir)
    results = directory.results()
  finished = sum(r.status == results_lib.FINISHED for r in results)
  if signum is not None:
    print(f'Stopped with {finished} of {len(all_members)} members finished; '
          'the same command resumes')
    return 128 + signum
  return 0 if finished == len(all_members) else 1


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _run(_parse_args()))


if __name__ == '__main__':
  sys.exit(main())
