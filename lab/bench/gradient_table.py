"""Measures A3C over the table of gradients against A3C in shared memory.

    python -m lab.bench.gradient_table [CONFIG.gin]

Real runs of the same workers on this machine, for segments of each length: in
memory, and over the learner's tables as from other machines, but through
loopback. The two of a length are alive at once, one suspended, and measured in
turns. Needs a machine with nothing else to do.
"""

import argparse
import sys
from typing import Any, Dict, Mapping, Optional

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.roles import beginning
from lab.bench import measure
from lab.bench import quiet
from lab.bench import report
from lab.bench import side_by_side
from lab.bench import training
from lab.bench import turns as turns_lib

WAYS = {'memory': 'AsyncConfig.share_memory = True',
        'table': 'AsyncConfig.share_memory = False'}


def summarise(measured: Mapping[str, side_by_side.Measured]
              ) -> Dict[str, Dict[str, Optional[float]]]:
  """Computes the numbers of each way.

  Args:
    measured: for each of `WAYS`, a run's measurements.

  Returns:
    For each way those of `side_by_side.summarise`, relative to memory's;
    `gradients_per_sec` and `policy_lag_max_updates`.
  """
  results = side_by_side.summarise(measured, 'memory')
  for way, numbers in results.items():
    rows = [row for window in measured[way].windows for row in window.rows]
    # Episodes end segments early, as often at any time of the run.
    numbers['gradients_per_sec'] = (
        numbers['frames_per_sec'] * rows[-1]['updates'] / rows[-1]['frames'])
    numbers['policy_lag_max_updates'] = max(
        row['policy_lag_max'] for row in rows)
  return results


def _settings(args: argparse.Namespace, length: int
              ) -> Dict[str, measure.Setting]:
  """Makes the settings of both ways; raises UserError for bad ones."""
  settings = {}
  for way, binding in WAYS.items():
    settings[way] = measure.Setting(f'{way}, T = {length}', args.config, [
        *side_by_side.BINDINGS, f'ActorConfig.num_actors = {args.processes}',
        f'AsyncConfig.max_segment_steps = {length}', *args.gin_binding,
        binding])
    config = settings[way].config()
    beginning.check_names(config)
    if config.experiment.algorithm not in ('a3c', 'a3c_continuous'):
      raise config_lib.UserError(
          f'{args.config} has the algorithm {config.experiment.algorithm!r}, '
          "not 'a3c'; name another file")
  return settings


def _show(name: str, numbers: Mapping[str, float]) -> None:
  print(f'{name}: {numbers["frames_per_sec"]:,.0f} frames/s '
        f'({numbers["ratio"]:.2f} of memory\'s, {numbers["ratio_low"]:.2f} to '
        f'{numbers["ratio_high"]:.2f}), '
        f'{numbers["gradients_per_sec"]:.1f} gradients/s, lag '
        f'{numbers["policy_lag_updates"]:.2f} (at most '
        f'{numbers["policy_lag_max_updates"]:.0f}), '
        f'{numbers["cpu_secs_per_1000_frames"]:.2f} CPU-s per 1,000 frames',
        flush=True)


def _run(args: argparse.Namespace) -> None:
  turns_lib.check(args)
  lengths = args.lengths.split(',')
  if not all(text.isdecimal() and int(text) > 0 for text in lengths):
    raise config_lib.UserError(
        '--lengths must be numbers of steps with commas between them, but is '
        f'{args.lengths!r}')
  if args.processes < 1:
    raise config_lib.UserError(
        f'--processes must be at least 1, but is {args.processes}')
  settings = {int(text): _settings(args, int(text)) for text in lengths}
  quiet.warn()
  results: Dict[str, Any] = {'machine': measure.machine(), 'lengths': {}}
  for length, ways in settings.items():
    measured = summarise(
        side_by_side.run(ways, args.rounds, args.seconds))
    for way, numbers in measured.items():
      _show(ways[way].name, numbers)
    results['lengths'][length] = measured
    if args.json:
      report.write_json(args.json, results)


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(
      prog='python -m lab.bench.gradient_table', description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  turns_lib.add_flags(parser, rounds=5, secs=10., config='configs/a3c/pong.gin')
  command_line.add_gin_binding(parser, example='AsyncConfig.num_workers = 32')
  parser.add_argument('--lengths', default='20,100', metavar='T,T',
                      help='most steps of a segment (default: %(default)s)')
  parser.add_argument('--processes', type=int, default=2,
                      help='processes of workers (default: %(default)s)')
  return parser.parse_args()


def main() -> int:
  """Returns the exit code."""
  training.raise_on_sigterm()
  return program.run(lambda: _run(_parse_args()))


if __name__ == '__main__':
  sys.exit(main())
