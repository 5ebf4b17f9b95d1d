"""Measures what an agent step costs, in parts and as a whole.

By default it measures the job that `train.sh` runs without arguments. Each part
runs by itself while a real training run is suspended; then the run goes on, and
so in turns, so that changes of the host's speed cancel out. Needs a machine
with nothing else to do, and warns of a busy one.
"""

import argparse
import sys

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.envs import factory
from impala_tf.runtime import user_modules
from impala_tf.storage import files
from lab.bench import measure
from lab.bench import quiet
from lab.bench import report
from lab.bench import training

_DEFAULT_CONFIG = 'configs/atari/pong.gin'  # As in `impala_tf.cli.train`.


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(prog='benchmark.sh', description=__doc__)
  command_line.add_config(parser, 'what to measure', _DEFAULT_CONFIG)
  command_line.add_gin_binding(parser)
  program.add_import(parser)
  parser.add_argument('--seconds', type=float, default=60.,
                      help='of training to measure (default: %(default)s)')
  parser.add_argument('--json', metavar='FILE',
                      help='also write the numbers there')
  return parser.parse_args()


def main() -> None:
  training.raise_on_sigterm()
  args = _parse_args()
  if args.json:
    files.check_writable(args.json, '--json')
  config_lib.check_range('--seconds', args.seconds, above=0)
  setting = measure.Setting(
      ', '.join([args.config, *args.gin_binding]), args.config,
      args.gin_binding)
  user_modules.load(args.modules)
  factory.check_levels(setting.config())
  quiet.warn()
  result = measure.run(setting, args.seconds)
  report.show(result)
  if args.json:
    files.write_json(args.json, result)


if __name__ == '__main__':
  sys.exit(program.run(main))
