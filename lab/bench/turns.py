"""Command-line flags of benchmarks: rounds, seconds, config and cores."""

import argparse
import os
from typing import Optional

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from lab.bench import report


def add_flags(parser: command_line.Parser, rounds: int, secs: float,
              config: str = 'configs/benchmark.gin') -> None:
  """Adds --rounds, --seconds and a config with these defaults, and --json."""
  command_line.add_config(parser, 'what to measure', config)
  parser.add_argument('--rounds', type=int, default=rounds,
                      help='how often each is measured (default: '
                      '%(default)s)')
  parser.add_argument('--seconds', type=float, default=secs,
                      help='of each turn (default: %(default)s)')
  parser.add_argument('--json', metavar='FILE',
                      help='also write the numbers there')


def check(args: argparse.Namespace) -> None:
  """Raises UserError if a flag's value cannot be used."""
  if args.rounds < 1 or args.seconds <= 0:
    raise config_lib.UserError(
        f'--rounds and --seconds must be above 0, but are {args.rounds} and '
        f'{args.seconds}')
  if args.json:
    report.check_writable(args.json)


def add_cores(parser: argparse.ArgumentParser) -> None:
  """Adds --cores, for `use_cores`."""
  parser.add_argument('--cores', type=int,
                      help='number of cores to use (default: all)')


def use_cores(number: Optional[int]) -> None:
  """Confines this process and its children to `number` of its cores.

  None is all; raises UserError if there are fewer.
  """
  available = sorted(os.sched_getaffinity(0))
  if number is None:
    return
  if not 1 <= number <= len(available):
    raise config_lib.UserError(
        f'--cores must be 1 to {len(available)}, but is {number}')
  os.sched_setaffinity(0, available[:number])
