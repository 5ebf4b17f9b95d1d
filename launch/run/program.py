"""Beginning and end of every program: network, first lines, exit code."""

import argparse
import importlib
import importlib.util
import os
import shlex
import signal
import sys
from typing import Any, Callable, Optional, Sequence, Tuple

from impala_tf import config as config_lib
from impala_tf.agents import torsos
from impala_tf.algorithms import table as algorithms
from impala_tf.envs import environment
from impala_tf.envs import factory
from impala_tf.processes import sizing
from impala_tf.processes import user_modules
from impala_tf.storage import files
from impala_tf.suites import levels
from impala_tf.suites import references
from launch.processes import child
from launch.processes import program as program_lib
from launch.run import gin_config
from launch.run import private_network
from launch.run import run_directory

EVALUATION = 'evaluation'  # In the run directory: what an evaluator writes.
NEEDS_REVERB = 'training needs Reverb'


def run(action: Callable[[], Optional[int]]) -> int:
  """Runs a program, and prints one line where its input or the run is bad.

  Args:
    action: does the program's work; returns the exit code, or None for 0.

  Returns:
    The exit code.
  """
  try:
    return action() or 0
  except config_lib.UserError as error:
    print(f'{child.COMPLAINT}{error}', file=sys.stderr)
    return child.BAD_INPUT
  except (program_lib.RunFailed, environment.SimulatorError, ConnectionError,
          files.RemoteError) as error:
    print(f'{child.COMPLAINT}{error}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:  # Before there was anything to end in order.
    return 128 + signal.SIGINT


def end(exit_code: int) -> None:
  """Ends the process with this exit code."""
  if files.were_urls_opened():
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
  sys.exit(exit_code)


def check_reverb() -> None:
  """Raises UserError on a Python that has no Reverb."""
  if importlib.util.find_spec('reverb') is None:
    raise config_lib.UserError(
        f'{NEEDS_REVERB}, whose last release loads on Python up to 3.11 only; '
        'get one (`uv python install 3.11`, or your system\'s python3.11), and '
        'set up with it: ./launch/setup.sh')


def load_for_roles(path: str, bindings: Sequence[str]) -> config_lib.Config:
  """Reads a configuration for a learner and actors in processes of their own.

  Args:
    path: path or URL of the .gin file.
    bindings: values of --gin_binding.

  Returns:
    The configuration.

  Raises:
    UserError: where it cannot be trained in this way.
  """
  config = gin_config.load(path, bindings)
  if config.experiment.in_process:
    raise config_lib.UserError(
        'ExperimentConfig.in_process leaves no roles to others; set it to '
        'False, or use ./launch/train.sh')
  check_names(config)
  return config


def check_names(config: config_lib.Config) -> None:
  """Raises ConfigError where level, algorithm or torso cannot be had so.

  Members of a population need reference scores besides.
  """
  factory.check_levels(config)
  algorithms.check(config)
  torsos.check(config.agent.torso)
  if config.population.member_names:
    references.find(config)


def import_architecture(config: config_lib.Config) -> Any:
  """Imports the module of `architectures` in which a run's algorithm learns.

  It has `run_learner` and `run_actor`, the processes of the two roles, and
  imports TensorFlow.
  """
  return importlib.import_module(
      f'impala_tf.architectures.{algorithms.architecture(config)}')


def show_beginning(config: config_lib.Config, run_dir: str,
                   resuming: bool) -> None:
  """Prints what is trained where, and which settings the machine decided."""
  print(f'{"Resuming" if resuming else "Training"} '
        f'{levels.short_name(config.environment.level)} in {run_dir}')
  is_shared = (
      algorithms.architecture(config) == algorithms.SHARED_PARAMETERS)
  for choice in (sizing.explain_workers(config) if is_shared else
                 sizing.explain(config)):
    print(f'  {choice}', flush=True)


def show_logs(run_dir: str) -> None:
  """Prints where the logs of a run's processes are if it is not obvious."""
  if files.is_url(run_dir):
    print(f'  logs of its processes in {run_directory.logs_path(run_dir)}',
          flush=True)


def add_import(parser: argparse.ArgumentParser) -> None:
  """Adds the flag --import, for `user_modules.load`."""
  parser.add_argument('--import', action='append', default=[], dest='modules',
                      metavar='FILE.py',
                      help='a file of your own that registers environments, '
                      'networks or algorithms, or the name of an installed '
                      'module; may be repeated; on other machines it must be '
                      'at the same path')


def add_network(parser: argparse.ArgumentParser) -> None:
  """Adds the flag --network, see `why_public`."""
  parser.add_argument('--network', choices=('auto', 'private', 'open'),
                      default='auto',
                      help='private: no other machine can reach the run, nor '
                      'the run others; open: any can; auto: private where the '
                      'system allows it, unless others are to connect, as '
                      'other flags say (default: %(default)s)')


def add_ray_address(parser: argparse.ArgumentParser) -> None:
  """Adds the flag --ray_address, see `connection.connected`."""
  parser.add_argument('--ray_address', metavar='HOST:PORT',
                      help="of the cluster that this machine is a node of, or "
                      "'auto' (default: Ray is started on this machine)")


def why_public(network: str, is_for_others: bool,
               *directories: Optional[str]) -> Optional[str]:
  """Decides from the flags whether other machines may reach the run.

  Args:
    network: value of --network.
    is_for_others: whether other machines are to connect.
    *directories: directories that the run reads or writes, as far as they are
      known; may be URLs.

  Returns:
    Why they may reach it; None where the run is to be private, see
    `enter_private_network`.

  Raises:
    UserError: where they may not, but a directory is on another machine.
  """
  elsewhere = [d for d in directories if d and files.needs_network(d)]
  if network != 'open' and elsewhere:
    if network == 'private':
      raise config_lib.UserError(
          f'--network=private: {elsewhere[0]} is on another machine; close the '
          'port to others (docs/cluster.md), and give --network=open')
    return f'{elsewhere[0]} is on another machine'
  if network == 'open' or (network == 'auto' and is_for_others):
    return 'as asked for'
  return None


def enter_private_network(module: str, network: str) -> Optional[str]:
  """Has this program run where other machines cannot reach it.

  Executes the program anew within a network of its own, unless that was tried.

  Args:
    module: this program.
    network: value of --network.

  Returns:
    Why other machines can reach it all the same; None where they cannot.

  Raises:
    UserError: where the flag demands it and the system does not allow it.
  """
  if not private_network.is_settled():
    private_network.restart_within(module)
  obstacle = private_network.obstacle()
  if obstacle and network == 'private':
    raise config_lib.UserError(
        f'--network=private: the system does not allow it ({obstacle}); close '
        'the port to others (docs/cluster.md), and give --network=open')
  return f'no private network here: {obstacle}' if obstacle else None


def show_network(open_ports: Sequence[Tuple[str, Optional[int]]],
                 why_public: Optional[str]) -> None:
  """Prints who can reach the run.

  Args:
    open_ports: name and port of each server; None is for a port that is yet to
      be chosen.
    why_public: why other machines can reach it; None where they cannot.
  """
  if why_public is None:
    print('  a network of its own: no other machine can reach this run',
          flush=True)
  else:
    for server, port in open_ports:
      print(f'  {open_port(port, server)}; {why_public}', flush=True)


def open_port(port: Optional[int], server: str = 'Reverb') -> str:
  """Returns a warning of an open port; None is for one yet to be chosen."""
  name = 'a port' if port is None else f'port {port}'
  return (f'{name} is open to every machine that reaches this one, and '
          f'{server} asks nobody who he is (docs/cluster.md: what to close)')


def conclude(run_dir: str, signum: Optional[int]) -> int:
  """Prints how training ended.

  Args:
    run_dir: directory of the run.
    signum: signal that ended it; None where it is done.

  Returns:
    The exit code.
  """
  quoted = shlex.quote(run_dir)
  if signum is None:
    flags = shlex.join(user_modules.flags())
    print(f'Done; evaluate with ./launch/evaluate.sh {quoted} {flags}'.rstrip())
    return 0
  again = f'the same command with --run_dir={quoted}'
  updates = run_directory.newest_checkpoint(run_dir)
  if updates is None:
    print(f'Stopped before the first checkpoint; {again} begins anew')
  else:
    print(f'Stopped with a checkpoint of update {updates:,d}; {again} resumes')
  return 128 + signum
