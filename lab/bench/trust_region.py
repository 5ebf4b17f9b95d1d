"""Measures what LASER's trust region costs the learner.

    python -m lab.bench.trust_region [CONFIG.gin]

Two learners update on the same kind of batch, which is ready, in turns: with
the config's own algorithm, which is 'laser', and with 'impala' or
'impala_popart' in its place. There are no actors.
"""

import argparse
import dataclasses
import statistics
import sys
import time
from typing import Dict, List

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.runs import gin_config
from impala_tf.runtime import sizing
from impala_tf.runtime import tf_threads
from lab.bench import parts
from lab.bench import report
from lab.bench import turns as turns_lib

_WARM_UP_CALLS = 3


def _without(config: config_lib.Config) -> config_lib.Config:
  """Returns the same config without the trust region."""
  name = 'impala'
  if config.impala.popart_step_size is not None:
    name = 'impala_popart'
  return dataclasses.replace(config, experiment=dataclasses.replace(
      config.experiment, algorithm=name))


def summarise(turns: Dict[str, List[float]]) -> Dict[str, float]:
  """Compares seconds an update, by algorithm and turn.

  Returns:
    The median of each, in ms, and the median of the ratios of each turn.
  """
  with_region, without = turns['laser'], turns['without']
  return {
      'with_ms': statistics.median(with_region) * 1e3,
      'without_ms': statistics.median(without) * 1e3,
      'ratio': statistics.median(
          x / y for x, y in zip(with_region, without))}


def _secs_per_update(part: parts.Part, secs: float) -> float:
  """Updates for so many seconds; returns CPU seconds an update."""
  number, start = 0, time.process_time()
  end = time.monotonic() + secs
  while time.monotonic() < end:
    part.run()
    number += 1
  return (time.process_time() - start) / number


def _run(args: argparse.Namespace) -> None:
  turns_lib.check(args)
  config = sizing.fit(gin_config.load(args.config))
  if config.experiment.algorithm != 'laser':
    raise config_lib.UserError(
        f"{args.config} has the algorithm {config.experiment.algorithm!r}, not "
        "'laser'; name another file")
  tf_threads.set_threads(1)
  learners = {'laser': parts.PARTS['learner'](config),
              'without': parts.PARTS['learner'](_without(config))}
  for part in learners.values():
    for _ in range(_WARM_UP_CALLS):
      part.run()
  turns = {name: [] for name in learners}
  for _ in range(args.rounds):
    for name, part in learners.items():
      turns[name].append(_secs_per_update(part, args.seconds))
  result = summarise(turns)
  print(f'an update with the trust region takes {result["with_ms"]:.2f} ms of '
        f'CPU, without {result["without_ms"]:.2f} ms: '
        f'{result["ratio"]:.3f} times as much')
  if args.json:
    report.write_json(args.json, result)


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(
      prog='python -m lab.bench.trust_region', description=__doc__)
  turns_lib.add_flags(parser, rounds=10, secs=3.)
  parser.set_defaults(config='configs/laser/pong.gin')
  return parser.parse_args()


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _run(_parse_args()))


if __name__ == '__main__':
  sys.exit(main())
