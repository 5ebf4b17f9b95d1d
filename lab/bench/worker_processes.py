"""Measures A3C's throughput by the number of its worker processes.

    python -m lab.bench.worker_processes [CONFIG.gin]

Real runs of the same workers, shared out over one process and over two, on the
same cores. They are alive at once, all but one suspended, and measured in
turns. Needs a machine with nothing else to do, and a core for each process.
"""

import argparse
import sys
from typing import Mapping

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.roles import beginning
from lab.bench import measure
from lab.bench import quiet
from lab.bench import report
from lab.bench import side_by_side
from lab.bench import training
from lab.bench import turns as turns_lib


def _setting(args: argparse.Namespace, number: str) -> measure.Setting:
  """Makes the setting of so many processes; raises UserError for a bad one."""
  setting = measure.Setting(f'processes: {number}', args.config, [
      *side_by_side.BINDINGS, *args.gin_binding,
      f'ActorConfig.num_actors = {number}'])
  config = setting.config()
  beginning.check_names(config)
  if algorithms.architecture(config) != algorithms.SHARED_PARAMETERS:
    raise config_lib.UserError(
        f'{args.config} has the algorithm {config.experiment.algorithm!r}, '
        'which has no workers; name another file')
  return setting


def _show(name: str, numbers: Mapping[str, float]) -> None:
  print(f'{name}; {numbers["frames_per_sec"]:,.0f} frames/s, '
        f'{numbers["ratio"]:.2f} times as many as the first '
        f'({numbers["ratio_low"]:.2f} to {numbers["ratio_high"]:.2f}), '
        f'{numbers["cpu_secs_per_1000_frames"]:.2f} CPU-s per 1,000 frames, '
        f'{numbers["cores"]:.2f} cores', flush=True)


def _run(args: argparse.Namespace) -> None:
  turns_lib.check(args)
  numbers = args.processes.split(',')
  if len(set(numbers)) < len(numbers) or not all(
      text.isdecimal() and int(text) > 0 for text in numbers):
    raise config_lib.UserError(
        '--processes must be different numbers with commas between them, but '
        f'is {args.processes!r}')
  settings = {number: _setting(args, number) for number in numbers}
  quiet.warn()
  measured = side_by_side.summarise(
      side_by_side.run(settings, args.rounds, args.seconds), numbers[0])
  for number, results in measured.items():
    _show(settings[number].name, results)
  if args.json:
    report.write_json(
        args.json, {'machine': measure.machine(), 'processes': measured})


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(
      prog='python -m lab.bench.worker_processes', description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  turns_lib.add_flags(parser, rounds=5, secs=10., config='configs/a3c/pong.gin')
  command_line.add_gin_binding(parser, example='AsyncConfig.num_workers = 32')
  parser.add_argument('--processes', default='1,2', metavar='P,P',
                      help='numbers of processes (default: %(default)s)')
  return parser.parse_args()


def main() -> int:
  """Returns the exit code."""
  training.raise_on_sigterm()
  return program.run(lambda: _run(_parse_args()))


if __name__ == '__main__':
  sys.exit(main())
