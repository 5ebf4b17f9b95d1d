"""Flags of the benchmarks that measure several settings in turns."""

import argparse

from impala_tf import config as config_lib
from launch.benchmark import report
from launch.run import command_line


def add_flags(parser: argparse.ArgumentParser, rounds: int,
              secs: float) -> None:
  """Adds --rounds and --seconds with these defaults, a config and --json."""
  command_line.add_config(parser, 'what to measure', 'configs/benchmark.gin')
  parser.add_argument('--rounds', type=int, default=rounds,
                      help='how often each is measured (default: '
                      '%(default)s)')
  parser.add_argument('--seconds', type=float, default=secs,
                      help='of each turn (default: %(default)s)')
  parser.add_argument('--json', metavar='FILE',
                      help='also write the numbers there')


def check(args: argparse.Namespace) -> None:
  """Raises UserError where a value cannot be used."""
  if args.rounds < 1 or args.seconds <= 0:
    raise config_lib.UserError(
        f'--rounds and --seconds must be above 0, but are {args.rounds} and '
        f'{args.seconds}')
  if args.json:
    report.check_writable(args.json)
