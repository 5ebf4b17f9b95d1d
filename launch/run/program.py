"""What the programs have in common: how they begin and how they end."""

import argparse
import os
import signal
import sys
from typing import Callable, Optional, Sequence, Tuple

from impala_tf import config as config_lib
from impala_tf.envs import factory
from impala_tf.processes import sizing
from impala_tf.processes import waiting
from impala_tf.storage import files
from impala_tf.suites import levels
from launch.processes import restarts
from launch.run import gin_config
from launch.run import private_network
from launch.run import run_directory

BAD_INPUT = 2
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
EVALUATION = 'evaluation'  # In the run directory: what an evaluator writes.


def run(action: Callable[[], Optional[int]]) -> int:
  """Runs a program; of bad input, and of what failed, it says one line.

  Args:
    action: returns the exit code, or None for 0.

  Returns:
    The exit code.
  """
  try:
    return action() or 0
  except config_lib.UserError as error:
    print(f'error: {error}', file=sys.stderr)
    return BAD_INPUT
  except (restarts.RunFailed, waiting.PeerMissing,
          files.RemoteError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:  # Before there was anything to end in order.
    return 128 + signal.SIGINT


def end(exit_code: int) -> None:
  """Ends the process."""
  if files.were_urls_opened():
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
  sys.exit(exit_code)


def load_for_roles(path: str, bindings: Sequence[str]) -> config_lib.Config:
  """Reads what learner and actors, each a program, are to train.

  Args:
    path: of the .gin file.
    bindings: as of --gin_binding.

  Returns:
    The configuration.

  Raises:
    UserError: where it cannot be trained so.
  """
  config = gin_config.load(path, bindings)
  if config.experiment.in_process:
    raise config_lib.UserError(
        'ExperimentConfig.in_process leaves no roles to others; set it to '
        'False, or use ./launch/train.sh')
  factory.check_levels(config)
  return config


def show_beginning(config: config_lib.Config, run_dir: str,
                   resuming: bool) -> None:
  """Says what is trained where, and what was chosen for it."""
  print(f'{"Resuming" if resuming else "Training"} '
        f'{levels.short_name(config.environment.level)} in {run_dir}')
  for choice in sizing.explain(config):
    print(f'  {choice}', flush=True)


def show_logs(run_dir: str) -> None:
  """Says where the logs of a run's processes are, unless it goes without."""
  if files.is_url(run_dir):
    print(f'  logs of its processes in {run_directory.logs_path(run_dir)}',
          flush=True)


def add_network(parser: argparse.ArgumentParser) -> None:
  """Adds the flag --network, see `not_private`."""
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


def not_private(module: str, network: str, is_for_others: bool,
                run_dir: Optional[str] = None) -> Optional[str]:
  """Sees to it that other machines cannot reach this program.

  May start it anew, within a network of its own.

  Args:
    module: this program.
    network: the flag.
    is_for_others: other machines are to connect.
    run_dir: of the run, as far as it is known; may be a URL.

  Returns:
    Why they can reach it; None where they cannot.

  Raises:
    UserError: where they shall not, and the system does not allow that, or
      the run directory is on another machine.
  """
  if network != 'open' and files.needs_network(run_dir or ''):
    if network == 'private':
      raise config_lib.UserError(
          f'--network=private: {run_dir} is on another machine; close the port '
          'to others (docs/cluster.md), and give --network=open')
    return f'{run_dir} is on another machine'
  if network == 'open' or (network == 'auto' and is_for_others):
    return 'as asked for'
  if not private_network.is_settled():
    private_network.restart_within(module)
  obstacle = private_network.obstacle()
  if obstacle and network == 'private':
    raise config_lib.UserError(
        f'--network=private: the system does not allow it ({obstacle}); close '
        'the port to others (docs/cluster.md), and give --network=open')
  return f'no private network here: {obstacle}' if obstacle else None


def show_network(open_ports: Sequence[Tuple[str, Optional[int]]],
                 why_open: Optional[str]) -> None:
  """Says who can reach the run.

  Args:
    open_ports: what listens, and where; None is for a port yet to be chosen.
    why_open: see `not_private`.
  """
  if why_open is None:
    print('  a network of its own: no other machine can reach this run',
          flush=True)
  else:
    for server, port in open_ports:
      print(f'  {open_port(port, server)}; {why_open}', flush=True)


def open_port(port: Optional[int], server: str = 'Reverb') -> str:
  """A warning; None is for a port that is yet to be chosen."""
  name = 'a port' if port is None else f'port {port}'
  return (f'{name} is open to every machine that reaches this one, and '
          f'{server} asks nobody who he is (docs/cluster.md: what to close)')


def conclude(run_dir: str, signum: Optional[int]) -> int:
  """Says how training ended.

  Args:
    run_dir: of the run.
    signum: that ended it; None where it is done.

  Returns:
    The exit code.
  """
  if signum is None:
    print(f'Done; evaluate with ./launch/evaluate.sh {run_dir}')
    return 0
  print(f'Stopped, checkpoint written; the same command with '
        f'--run_dir={run_dir} resumes')
  return 128 + signum
