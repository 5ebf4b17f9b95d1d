"""Shared parts of programs: common flags, private network, exit code."""

import argparse
import errno
import functools
import os
import shlex
import signal
import sys
import traceback
from typing import Callable

from impala_tf import config as config_lib
from impala_tf.envs import environment
from impala_tf.runs import run_directory
from impala_tf.runtime import child
from impala_tf.runtime import private_network
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import user_modules
from impala_tf.runtime import wording
from impala_tf.storage import files

# Of OSErrors that are no mistake of a user's code. Ours have only words: None.
_DISK = (None, errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def run(action: Callable[[], int | None]) -> int:
  """Runs `action`, prints a known error in one line, returns the exit code."""
  try:
    return action() or 0
  except config_lib.UserError as error:
    _complain(error)
    return child.BAD_INPUT
  except (program_lib.RunFailed, environment.SimulatorError, ConnectionError,
          files.RemoteError) as error:
    # The user's code has the mistake.
    if isinstance(error, environment.SimulatorError) and error.__cause__:
      traceback.print_exception(error.__cause__)
    _complain(error)
    return 1
  except OSError as error:
    if type(error) is not OSError or error.errno not in _DISK:
      raise
    _complain(error)
    return 1
  except KeyboardInterrupt as error:  # Nothing is to be saved.
    return 128 + (error.args[0] if error.args else signal.SIGINT)


def _complain(error: Exception) -> None:
  print(child.COMPLAINT + private_network.explained(str(error)),
        file=sys.stderr)


def returning_exit_code(main: Callable[[], int | None]) -> Callable[[], int]:
  """Decorates a program's `main`, which `run` then calls.

  Refuses `python -m impala_tf.cli.train`, which would only define it.
  """
  if main.__module__ == '__main__':
    verb = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    print(f'{child.COMPLAINT}this module is no program; run python -m '
          f'impala_tf {verb}', file=sys.stderr)
    sys.exit(child.BAD_INPUT)
  return functools.wraps(main)(lambda: run(main))


def end(exit_code: int, at_once: bool = False) -> None:
  """Exits the process; `at_once` skips the exit handlers of libraries."""
  if at_once or files.opened:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
  sys.exit(exit_code)


def add_import(parser: argparse.ArgumentParser) -> None:
  """Adds the flag --import, for `user_modules.load`."""
  parser.add_argument(
      '--import', action='append', default=[], dest='modules',
      type=os.path.expanduser, metavar='FILE.py', help='a file of yours that '
      'registers environments, networks or algorithms, or the name of an '
      'installed module; may be repeated; on other machines at the same path')


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
  """Adds the flag --checkpoint, whose value is for `parse_checkpoint`."""
  parser.add_argument('--checkpoint', default='newest', metavar='best',
                      help='which parameters: newest; best, by the mean return '
                      'of 100 full episodes of training; or N, the number of '
                      'updates in the name of a checkpoint (default: '
                      '%(default)s)')


def parse_checkpoint(text: str) -> str | int:
  """Converts --checkpoint to 'newest', 'best' or int; else raises UserError."""
  if text in ('newest', 'best'):
    return text
  if text.isascii() and text.isdecimal():
    return int(text)
  raise config_lib.UserError(
      f'--checkpoint must be newest, best or a number of updates, but is '
      f'{text!r}')


def add_ray_address(parser: argparse.ArgumentParser) -> None:
  """Adds the flag --ray_address, see `connection.connected`."""
  parser.add_argument('--ray_address', metavar='HOST:PORT',
                      help="of the cluster that this machine is a node of, or "
                      "'auto' (default: Ray is started on this machine)")


def why_public(verb: str, args: argparse.Namespace, is_for_others: bool
               ) -> str | None:
  """Returns why other machines can reach the run, or None if they cannot.

  It may execute the program anew, see `enter_private_network`. `is_for_others`
  says whether other machines are to connect. Raises UserError for
  --network=private if that cannot be.
  """
  elsewhere = [path for path in (args.run_dir, args.init_from)
               if path and files.needs_network(path)]
  if args.network == 'open' or args.network == 'auto' and not elsewhere and (
      is_for_others or args.replay_address is not None):
    return 'as asked for'
  why = (f'{elsewhere[0]} is on another machine' if elsewhere else
         enter_private_network(verb))
  if why and args.network == 'private':
    raise config_lib.UserError(
        f'--network=private: {why}; close the port to others '
        '(docs/cluster.md), and give --network=open')
  return why


def enter_private_network(verb: str) -> str | None:
  """Restarts the program `verb` in a private network, if not yet attempted.

  Returns why other machines can reach it all the same; None if they cannot.
  """
  if not private_network.is_settled():
    private_network.restart_within('impala_tf', verb)
  obstacle = private_network.obstacle()
  return f'no private network here: {obstacle}' if obstacle else None


def conclude(run_dir: str, signum: int | None) -> int:
  """Prints whether training finished or was stopped; returns the exit code."""
  quoted = shlex.quote(run_dir)
  if signum is None:
    flags = shlex.join(user_modules.flags())
    evaluate = wording.command('evaluate')
    print(f'Done; evaluate with {evaluate} {quoted} {flags}'.rstrip())
    return 0
  print(run_directory.describe_stop(
      run_dir, f'the same command with --run_dir={quoted}'))
  return 128 + signum
