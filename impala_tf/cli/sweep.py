"""Runs a sweep, here or on a Ray cluster.

The same command resumes it: finished runs stay as they are, interrupted ones
are resumed. If some fail, the others are run to their ends.
"""

import argparse
import contextlib
import datetime
import itertools
import os
import time
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.plots import suite_tables
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.roles import beginning
from impala_tf.runs import gin_config
from impala_tf.runs import sharing
from impala_tf.runs import sweep_directory
from impala_tf.runtime import batch
from impala_tf.runtime import local
from impala_tf.runtime import sizing
from impala_tf.runtime import user_modules
from impala_tf.storage import shipped
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib

# Variables of a run within one process, which otherwise has as many threads as
# the machine has cores.
_ONE_THREAD = {'TF_NUM_INTRAOP_THREADS': '1', 'TF_NUM_INTEROP_THREADS': '1'}
_WAIT_SECS = 600.  # Longest wait for room while no run has any.
_BEST = 3  # Settings that the paper's table 2 averages over.


class Program:
  """A program that trains or resumes all runs of a .gin file."""
  kind = sweep_directory.SWEEP

  def check(self, runs: Sequence[tuple[plan_lib.Run, config_lib.Config]]
            ) -> None:
    """Raises ConfigError if runs cannot train together; see `load_runs`."""

  def begin(self, runs: Mapping[str, plan_lib.Run],
            run_dirs: Mapping[str, str]) -> batch.Turns:
    """Returns the order of `runs`; `run_dirs` has only unfinished runs."""
    return batch.IN_ORDER

  def note_failure(self, run_dir: str) -> None:
    """Marks a run as failed in its directory; does nothing in a sweep."""

  def show(self, config: plan_lib.SweepConfig, path: str,
           results: Sequence[results_lib.Result]) -> None:
    """Prints the results, after all runs have ended or were stopped."""
    print(summary(config, results))

  def run(self, description: str) -> int:
    args = _parse_args(self.kind, description)
    beginning.check_reverb()
    config = gin_config.load_sweep(args.file, self.kind.configs)
    groups = plan_lib.groups(config, self.kind.list_runs(config))
    if not args.ray_address and (args.engine == 'ray' or groups):
      # Ray listens on all interfaces, and runs whatever it is sent.
      why_public = 'as asked for' if args.network == 'open' else (
          program.enter_private_network(self.kind.name))
      if why_public:
        opened = 'Ray is' if args.engine == 'ray' else 'Reverb servers are'
        print(f'{opened} open to every machine that reaches this one '
              f'(docs/cluster.md: what to close); {why_public}', flush=True)
    user_modules.load(args.modules)
    tasks, runs = load_runs(config, self.kind)
    self.check(runs)
    in_process = all(loaded.experiment.in_process for _, loaded in runs)
    at_least = max((len(group.runs) for group in groups), default=1)
    with _connected(args, in_process, at_least) as host, (
        sweep_directory.claim(
            args.directory, config, tasks, self.kind)) as directory:
      signum = self._run_batch(args, host, directory, groups)
      results = directory.results()
      self.show(config, args.directory, results)
    print('All results: '
          f'{os.path.join(args.directory, sweep_directory.RESULTS)}')
    finished = sum(r.status == results_lib.FINISHED for r in results)
    if signum is not None:
      print(f'Stopped with {finished} of {len(directory.runs)} '
            f'{self.kind.runs} finished; the same command resumes')
      return 128 + signum
    if finished < len(directory.runs):
      print(f'{finished} of {len(directory.runs)} {self.kind.runs} finished; '
            'the same command resumes interrupted ones, --retry_failed those '
            'that failed')
      return 1
    return 0

  def _run_batch(self, args: argparse.Namespace, host: 'Host',
                 directory: sweep_directory.SweepDirectory,
                 groups: Sequence[plan_lib.Group]) -> int | None:
    """Runs unfinished runs; returns the signal that ended them, if any."""
    runs = {run.name: run for run in directory.runs}
    to_do = directory.runs_to_do(args.retry_failed)
    run_dirs = {run.name: directory.run_dir(run) for run in to_do}
    print(f'{len(to_do)} of {len(runs)} {self.kind.runs} to do in '
          f'{args.directory}, {host.num_jobs} at a time', flush=True)
    progress = Progress(len(runs) - len(to_do), len(runs))

    def on_end(name: str, ended: batch.Ended):
      how = results_lib.FINISHED
      try:
        if ended.was_stopped:
          how = results_lib.INTERRUPTED
        elif ended.exit_code:
          how = results_lib.FAILED
          self.note_failure(run_dirs[name])
        progress.show(directory.record(runs[name], how, ended.error))
      except (OSError, config_lib.UserError) as error:  # Others go on.
        print(f'{name} {how}, but not recorded: {error}', flush=True)

    shared = sharing.plan(groups, to_do, directory, host.address)
    flags = {name: more for one in shared for name, more in one.flags.items()}
    return host.make_batch(directory).run(
        {run.name: [*directory.arguments(run), f'--network={args.network}',
                    *flags.get(run.name, ())] for run in to_do},
        on_end, self.begin(runs, run_dirs),
        [batch.Group(tuple(one.flags), local.make_server(
            one.name, one.command, directory.log_dir, directory.lock))
         for one in shared])


def summary(config: plan_lib.SweepConfig,
            results: Sequence[results_lib.Result]) -> str:
  """Returns a table of results, with a line for each task and variant."""
  rows = []
  for task, variant in itertools.product(config.tasks, config.variants):
    selected = results_lib.select(results, task, variant)
    statuses = [result.status for result in selected]
    returns = results_lib.setting_returns(selected)
    rows.append((
        task, variant, statuses.count(results_lib.FINISHED),
        statuses.count(results_lib.FAILED),
        results_lib.best_mean(selected, _BEST),
        results_lib.best_mean(selected, None), next(iter(returns), None)))
  return suite_tables.table(
      ['task', 'variant', 'finished', 'failed', f'best {_BEST}', 'all',
       'best setting'], rows, num_names=2,
      forms=['', '', '', '', '.2f', '.2f', ''])


class Progress:
  """Progress of a sweep, printed as a line for each run that ends."""

  def __init__(self, num_done: int, num_runs: int):
    self._before = self._num_done = num_done
    self._num_runs = num_runs
    self._start = time.monotonic()

  def show(self, result: results_lib.Result) -> None:
    self._num_done += result.status != results_lib.INTERRUPTED
    parts = [f'[{self._num_done}/{self._num_runs}] {result.run.name} '
             f'{result.status}', result.error]
    if result.final_return is not None:
      parts.append(f'return {result.final_return:.2f}')
    if result.secs is not None:
      parts.append(f'{result.secs:.0f} s')
    here = self._num_done - self._before
    if here:
      secs = (time.monotonic() - self._start) / here
      left = secs * (self._num_runs - self._num_done)
      parts.append(f'ETA {datetime.timedelta(seconds=round(left))}')
    print(' · '.join(filter(None, parts)), flush=True)


class Host(NamedTuple):
  """The machine or Ray cluster that trains the runs."""
  num_jobs: int  # Runs at a time.
  make_batch: Callable[[sweep_directory.SweepDirectory], batch.Batch]
  address: str  # This machine, as they reach it.


def _parse_args(kind: sweep_directory.Kind,
                description: str) -> argparse.Namespace:
  parser = command_line.Parser(description=description)
  parser.add_argument(
      'file', metavar='FILE.gin',
      help=f'what to run; a file, or one of configs/{kind.configs}/ by name')
  parser.completers['file'] = lambda: shipped.config_names(kind.configs)
  parser.add_argument(kind.flag, required=True, dest='directory',
                      help=f'where {kind.runs} and results go; what is there '
                      'already is resumed')
  program.add_import(parser)
  parser.add_argument('--network', choices=('auto', 'open'), default='auto',
                      help='as in train, for each (default: %(default)s)')
  parser.add_argument('--retry_failed', action='store_true',
                      help=f'also resume {kind.runs} that have failed')
  parser.add_argument(
      '--jobs', type=int, help='runs at a time (default: one a core where all '
      'runs are in_process, else one; on Ray as many as there is room for)')
  parser.add_argument('--engine', choices=('local', 'ray'), default='local',
                      help='what runs them: this machine, or a Ray cluster '
                      f'whose nodes share {kind.flag} (default: %(default)s)')
  program.add_ray_address(parser)
  parser.add_argument('--run_cpus', type=float,
                      help='CPUs reserved for a run (default: 1 where all '
                      'runs are in_process, else all of the smallest node)')
  parser.add_argument('--run_gpus', type=float, default=0.,
                      help='GPUs for each run (default: %(default)g)')
  args = parser.parse_args()
  config_lib.check_range('--jobs', args.jobs, at_least=1)
  config_lib.check_range('--run_cpus', args.run_cpus, above=0)
  config_lib.check_range('--run_gpus', args.run_gpus, at_least=0)
  if args.engine != 'ray' and (args.ray_address or args.run_cpus
                               or args.run_gpus):
    raise config_lib.UserError(
        '--ray_address, --run_cpus and --run_gpus are for --engine=ray; give '
        'that, too, or leave them out')
  return args


@contextlib.contextmanager
def _connected(args: argparse.Namespace, in_process: bool, at_least: int
               ) -> Iterator[Host]:
  """Yields a host that fits `at_least` runs at once; else raises UserError."""
  environment = _ONE_THREAD if in_process else {}
  with contextlib.ExitStack() as stack:
    if args.engine == 'local':
      # Runs keep one thread whatever --jobs is: results must not depend on it.
      num_jobs = args.jobs or max(
          at_least, sizing.num_cores() if in_process else 1)
      host = Host(num_jobs, lambda claimed: local.make_batch(
          num_jobs, claimed.log_dir, environment, keep_open=claimed.lock),
                  'localhost')
    else:
      nodes = stack.enter_context(ray_connection.connected(args.ray_address))
      import ray

      from impala_tf.ray_cluster import host as ray_host  # Imports Ray.
      from impala_tf.ray_cluster import program as ray_program
      all_of_a_node = min((n.cpus for n in nodes if n.cpus), default=1.)
      needs = ray_connection.Resources(
          args.run_cpus or (1. if in_process else all_of_a_node), args.run_gpus)
      room = ray_connection.num_places(nodes, needs)
      if not room:
        raise config_lib.UserError(
            f'no node has {needs} for a run: the cluster has '
            f'{ray_connection.describe(nodes)}; give smaller --run_cpus or '
            '--run_gpus, or add such a node')
      num_jobs = min(args.jobs or room, room)
      host = Host(num_jobs, lambda claimed: ray_program.make_batch(
          num_jobs, claimed.log_dir, environment, needs,
          [os.path.abspath(args.directory), *user_modules.paths()], _WAIT_SECS),
                  ray_host.bracketed(ray.util.get_node_ip_address()))
    if num_jobs < at_least:
      raise config_lib.UserError(
          f'{at_least} runs share a replay and run at the same time, but only '
          f'{num_jobs} can; give more --jobs, or smaller --run_cpus on Ray')
    yield host


def load_runs(config: plan_lib.SweepConfig,
              kind: sweep_directory.Kind = sweep_directory.SWEEP) -> tuple[
    dict[str, config_lib.Config], list[tuple[plan_lib.Run, config_lib.Config]]]:
  """Reads each task's config, without and with the bindings of runs.

  Returns the config of each task; and a run with each setting, with their
  configs. Raises ConfigError if a run could not work.
  """
  tasks = {task: gin_config.load(path) for task, path in config.tasks.items()}
  every_run = kind.list_runs(config)
  runs = [(run, gin_config.load(config.tasks[run.task], run.gin_bindings()))
          # All seeds are alike.
          for run in every_run if run.seed == config.first_seed]
  for _, loaded in runs:
    beginning.check_names(loaded)
    sizing.fit(loaded)
  sharing.check(config, plan_lib.groups(config, every_run))
  return tasks, runs


@program.returning_exit_code
def main() -> int:
  """Runs or resumes the sweep; returns the exit code."""
  return Program().run(__doc__)
