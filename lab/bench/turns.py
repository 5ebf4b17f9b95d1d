"""Command-line flags of benchmarks: rounds, seconds and config."""

import argparse

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.storage import files


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
  config_lib.check_range('--rounds', args.rounds, at_least=1)
  config_lib.check_range('--seconds', args.seconds, above=0)
  if args.json:
    files.check_writable(args.json, '--json')
