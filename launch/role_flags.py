"""Flags of the roles, see `launch/role.sh`, and what is wrong with them."""

import argparse
from typing import Callable, Tuple

from impala_tf import config as config_lib
from launch import program


def make_parser(description: str) -> argparse.ArgumentParser:
  """Of the flags of all roles."""
  parser = argparse.ArgumentParser(prog='role.sh', description=description)
  parser.add_argument('role', choices=('learner', 'actor', 'evaluator'))
  parser.add_argument('--address', required=True, metavar='HOST:PORT',
                      help='where the learner listens, as its peers reach it')
  parser.add_argument('--task', type=int, default=0,
                      help='which of the actors this is, from 0 on (default: '
                      '%(default)s)')
  parser.add_argument('--config', metavar='FILE.gin',
                      help='learner: what to train (default: as in --run_dir); '
                      'others: refuse a learner with another config')
  parser.add_argument('--gin_binding', action='append', default=[],
                      metavar='"LearnerConfig.batch_size = 16"',
                      help='changes one value of --config; may be repeated')
  parser.add_argument('--run_dir',
                      help='learner: where logs and checkpoints go; an '
                      'existing run is resumed (default: a new one in runs/); '
                      f'evaluator: writes to {program.EVALUATION}/ in it')
  parser.add_argument('--output', metavar='DIR',
                      help='evaluator: writes there instead')
  parser.add_argument('--wait_secs', type=float, default=600.,
                      help='for a peer at most, at the start and later '
                      '(default: %(default)g)')
  parser.add_argument('--seed', type=int, help='of games and actions (default: '
                      'another each time)')
  parser.add_argument('--profile', action='store_true',
                      help='learner, actor: record what time goes to, in '
                      '--run_dir')
  parser.add_argument('--supervised', action='store_true',
                      help='as a child of train.sh: the run directory is '
                      'claimed, and the end of standard input ends it')
  return parser


def parse_address(text: str) -> Tuple[str, int]:
  """Returns host and port; raises UserError where it is not both."""
  host, _, port = text.rpartition(':')
  if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
    raise config_lib.UserError(
        f'--address must be HOST:PORT, but is {text!r}; give the machine of '
        'the learner and the port it listens on')
  return host, int(port)


def check(args: argparse.Namespace) -> None:
  """Raises UserError before anything is waited for."""
  parse_address(args.address)
  if args.task < 0:
    raise config_lib.UserError(
        f'--task must be at least 0, but is {args.task}')
  if not args.wait_secs > 0:
    raise config_lib.UserError(
        f'--wait_secs must be above 0, but is {args.wait_secs:g}')
  if args.role == 'evaluator' and not (args.output or args.run_dir):
    raise config_lib.UserError(
        'an evaluator needs --run_dir, or --output where it cannot see that')
  if args.role == 'actor' and args.profile and not args.run_dir:
    raise config_lib.UserError('--profile needs --run_dir to write to')


def make_say(args: argparse.Namespace) -> Callable[[str], None]:
  """Prints lines that tell which role they are of."""
  name = f'actor {args.task}' if args.role == 'actor' else args.role
  return lambda line: print(f'{name}: {line}', flush=True)
