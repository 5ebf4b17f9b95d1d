"""Engines that run a sweep: this machine, or a Ray cluster."""

import argparse
import contextlib
import os
from typing import Callable, Dict, Iterator, List, NamedTuple, Tuple

from impala_tf import config as config_lib
from impala_tf.cli import program
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.roles import beginning
from impala_tf.runs import gin_config
from impala_tf.runs import sweep_directory
from impala_tf.runtime import batch
from impala_tf.runtime import local
from impala_tf.runtime import sizing
from impala_tf.runtime import user_modules
from impala_tf.sweeps import plan as plan_lib

# Variables of a run within one process, which otherwise has as many threads as
# the machine has cores.
_ONE_THREAD = {'TF_NUM_INTRAOP_THREADS': '1', 'TF_NUM_INTEROP_THREADS': '1'}
_WAIT_SECS = 600.  # Longest wait for room while no run has any.


class Host(NamedTuple):
  """The host of the runs.

  Attributes:
    num_jobs: number of runs at a time.
    make_batch: makes their batch.
    address: this machine, as they reach it.
  """
  num_jobs: int
  make_batch: Callable[[sweep_directory.SweepDirectory], batch.Batch]
  address: str


def add_flags(parser: argparse.ArgumentParser, directory_flag: str) -> None:
  """Adds the flags that say where runs run, and how many at a time.

  Args:
    parser: parser of the program.
    directory_flag: flag of the directory that nodes of a cluster must share.
  """
  parser.add_argument('--jobs', type=int,
                      help='runs at a time (default: one a core where all runs '
                      'are in_process, else one; on Ray as many as there is '
                      'room for)')
  parser.add_argument('--engine', choices=('local', 'ray'), default='local',
                      help='what runs them: this machine, or a Ray cluster '
                      f'whose nodes share {directory_flag} (default: '
                      '%(default)s)')
  program.add_ray_address(parser)
  parser.add_argument('--run_cpus', type=float,
                      help='that Ray reserves for a run (default: 1 where all '
                      'runs are in_process, else all of the smallest node)')
  parser.add_argument('--run_gpus', type=float, default=0.,
                      help='likewise (default: %(default)g)')


def check_flags(args: argparse.Namespace) -> None:
  """Raises UserError for flags of `add_flags` that cannot work."""
  if args.jobs is not None and args.jobs < 1:
    raise config_lib.UserError(f'--jobs must be at least 1, but is {args.jobs}')
  if args.run_cpus is not None and not args.run_cpus > 0:
    raise config_lib.UserError(
        f'--run_cpus must be above 0, but is {args.run_cpus:g}')
  if not args.run_gpus >= 0:
    raise config_lib.UserError(
        f'--run_gpus must be at least 0, but is {args.run_gpus:g}')
  if args.engine != 'ray' and (args.ray_address or args.run_cpus
                               or args.run_gpus):
    raise config_lib.UserError(
        '--ray_address, --run_cpus and --run_gpus are for --engine=ray; give '
        'that, too, or leave them out')


def enter_private_network(args: argparse.Namespace, module: str,
                          has_servers: bool = False) -> None:
  """Moves a program that starts servers out of other machines' reach.

  Args:
    args: flags of the program.
    module: the program.
    has_servers: whether runs are served by programs beside them, with which
      they must be in one network.
  """
  if not args.ray_address and (args.engine == 'ray' or has_servers):
    # Ray listens on all interfaces, and runs whatever it is sent.
    why_public = program.enter_private_network(module, 'auto')
    if why_public:
      opened = 'Ray is' if args.engine == 'ray' else 'Reverb servers are'
      print(f'{opened} open to every machine that reaches this one '
            f'(docs/cluster.md: what to close); {why_public}', flush=True)


@contextlib.contextmanager
def connected(args: argparse.Namespace, in_process: bool,
              directory: str, at_least: int = 1) -> Iterator[Host]:
  """Connects to the host of the runs.

  Args:
    args: flags of the program.
    in_process: whether each run is a single process.
    directory: path of the sweep.
    at_least: number of runs that have to run at the same time.

  Yields:
    The host.

  Raises:
    UserError: where it has room for fewer.
  """
  environment = _ONE_THREAD if in_process else {}
  if args.engine == 'local':
    # Runs keep one thread whatever --jobs is: results must not depend on it.
    num_jobs = args.jobs or max(
        at_least, sizing.num_cores() if in_process else 1)
    _check_together(num_jobs, at_least)
    yield Host(num_jobs, lambda claimed: local.make_batch(
        num_jobs, claimed.log_dir, environment, keep_open=claimed.lock),
               'localhost')
    return
  with ray_connection.connected(args.ray_address) as nodes:
    from impala_tf.ray_cluster import batch as ray_batch  # Imports Ray.
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
    _check_together(num_jobs, at_least)
    yield Host(num_jobs, lambda claimed: ray_batch.make_batch(
        num_jobs, claimed.log_dir, environment, needs,
        [os.path.abspath(directory), *user_modules.paths()], _WAIT_SECS),
               ray_connection.own_host())


def _check_together(num_jobs: int, at_least: int) -> None:
  """Raises UserError where fewer runs at a time than share a replay can run."""
  if num_jobs < at_least:
    raise config_lib.UserError(
        f'{at_least} runs share a replay and run at the same time, but only '
        f'{num_jobs} can; give more --jobs, or smaller --run_cpus on Ray')


def load_runs(config: plan_lib.SweepConfig,
              kind: sweep_directory.Kind = sweep_directory.SWEEP) -> Tuple[
    Dict[str, config_lib.Config], List[Tuple[plan_lib.Run, config_lib.Config]]]:
  """Reads each task's config, alone and with the bindings of runs.

  Args:
    config: config of the sweep.
    kind: what it is to be.

  Returns:
    Config of each task; and runs with all limits of the settings, with their
    configs.

  Raises:
    ConfigError: where a run could not work.
  """
  tasks = {task: gin_config.load(path) for task, path in config.tasks.items()}
  runs = [(run, gin_config.load(config.tasks[run.task], run.gin_bindings()))
          for run in kind.list_runs(config, plan_lib.corners(config))
          if run.seed == config.first_seed]  # All seeds are alike.
  distinct = {  # By what is checked of them.
      (loaded.environment, loaded.agent, loaded.actor, loaded.impala,
       loaded.laser, loaded.population, loaded.learner, loaded.replay,
       loaded.optimizer.momentum, loaded.experiment.algorithm): loaded
      for _, loaded in runs}
  for loaded in distinct.values():
    beginning.check_names(loaded)
  return tasks, runs
