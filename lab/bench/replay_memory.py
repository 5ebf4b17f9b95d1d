"""Measures the memory that unrolls take in a replay.

    python -m lab.bench.replay_memory [CONFIG.gin] [--levels=LEVEL,...]

A new agent, which plays nearly at random, fills a replay with unrolls of each
level. What the process grows by is divided by their number.
"""

import argparse
import dataclasses
import gc
import os
import pathlib
import sys
from typing import Any, Dict

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.core import actor as actor_lib
from impala_tf.core import experiment
from impala_tf.core import queue as queue_lib
from impala_tf.runs import gin_config
from impala_tf.runtime import sizing
from impala_tf.runtime import tf_threads
from lab.bench import report

# Until then buffers fill.
_SETTLE_UNROLLS = 200
_MANY = 500_000  # 10 million observations in unrolls of 20.


class _NoParameters:
  """A fetcher without parameters."""

  def fetch(self) -> int:
    return 0


def _resident_bytes() -> int:
  gc.collect()
  pages = pathlib.Path('/proc/self/statm').read_text().split()[1]
  return int(pages) * os.sysconf('SC_PAGE_SIZE')


def measure(config: config_lib.Config, number: int) -> Dict[str, Any]:
  """Fills a replay with unrolls of the config's level.

  Args:
    config: config with a number of environments.
    number: unrolls, beyond some with which buffers fill.

  Returns:
    Bytes of an unroll in the replay, and before it is compressed.
  """
  algorithms.check(config)
  environment = experiment.make_environment(
      config, config.actor.num_envs, seed=0, training=True)
  agent = experiment.make_agent(config, environment)
  spec = experiment.make_unroll_spec(config, environment, agent)
  table = queue_lib.make_replay(
      spec, number + _SETTLE_UNROLLS + 2 * config.actor.num_envs,
      sizing.memory_bytes())
  server = queue_lib.make_server([table], None)
  writer = queue_lib.UnrollWriter(
      f'localhost:{server.port}', spec, (queue_lib.REPLAY,))
  actor = actor_lib.Actor(
      agent, environment, writer, _NoParameters(), spec, seed=0)

  def fill(wanted):
    while table.info.current_size < wanted:
      actor.run_unroll()
    return table.info.current_size, _resident_bytes()

  first, bytes_before = fill(_SETTLE_UNROLLS)
  last, bytes_after = fill(first + number)
  actor.close()
  server.stop()
  return {'level': config.environment.level, 'unrolls': last - first,
          'bytes_per_unroll': (bytes_after - bytes_before) / (last - first),
          'raw_bytes_per_unroll': sum(
              field.shape.num_elements() * field.dtype.size
              for field in tf.nest.flatten(spec))}


def _run(args: argparse.Namespace) -> None:
  if args.unrolls < 1:
    raise config_lib.UserError(
        f'--unrolls must be at least 1, but is {args.unrolls}')
  if args.json:
    report.check_writable(args.json)
  tf_threads.set_threads(1)
  config = sizing.fit(gin_config.load(args.config))
  results = []
  print('| level | unrolls | KiB an unroll | raw KiB | '
        f'GiB of {_MANY:,} |\n|---|---|---|---|---|')
  for level in (args.levels or config.environment.level).split(','):
    results.append(measure(dataclasses.replace(
        config, environment=dataclasses.replace(
            config.environment, level=level)), args.unrolls))
    size = results[-1]['bytes_per_unroll']
    print(f'| {level} | {results[-1]["unrolls"]:,} | {size / 1024:.1f} | '
          f'{results[-1]["raw_bytes_per_unroll"] / 1024:.1f} | '
          f'{size * _MANY / (1 << 30):.1f} |', flush=True)
  if args.json:
    report.write_json(args.json, results)


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(
      prog='python -m lab.bench.replay_memory', description=__doc__)
  command_line.add_config(parser, 'what to play', 'configs/benchmark.gin')
  parser.add_argument('--levels', help='levels to play one after the other, '
                      'with commas between them (default: the config\'s)')
  parser.add_argument('--unrolls', type=int, default=5_000,
                      help='of each level (default: %(default)s)')
  parser.add_argument('--json', metavar='FILE',
                      help='also write the numbers there')
  return parser.parse_args()


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _run(_parse_args()))


if __name__ == '__main__':
  sys.exit(main())
