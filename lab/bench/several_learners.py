"""Measures what it costs learners to make each update together.

    python -m lab.bench.several_learners [--learners=1,2,4]

Learners update on a batch that is ready, each on a core of its own: one alone,
two that sum their gradients, and so on, in turns. There are no actors.
Efficiency is how many updates several learners make in the time in which one
alone makes one: without communication, and with cores to themselves, it is 1.
"""

import argparse
import contextlib
import os
import sys
from typing import Dict, List

import numpy as np

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.runs import gin_config
from impala_tf.runtime import ports
from lab.bench import report
from lab.bench import turns as turns_lib
from lab.bench import worker

_MODULE = 'lab.bench.joint_learner'


class _Group:
  """Learners that apply each update together.

  Attributes:
    number: number of learners.
    turns: measurements, for each turn one of each learner.
  """

  def __init__(self, stack: contextlib.ExitStack, config_path: str,
               cores: List[int]):
    self.number = len(cores)
    self.turns: List[List[worker.Measurement]] = []
    addresses = [f'localhost:{port}'
                 for port in ports.choose_free(self.number)]
    self._workers = [
        worker.Worker(_MODULE, [config_path, str(core), str(task), *addresses])
        for task, core in enumerate(cores)]
    for learner in self._workers:
      stack.callback(learner.close)
    for learner in self._workers:
      learner.wait_until_ready()

  def measure(self, secs: float) -> None:
    for learner in self._workers:
      learner.ask(secs)
    self.turns.append([learner.answer() for learner in self._workers])


def summarise(turns: Dict[int, List[List[worker.Measurement]]]
              ) -> List[Dict[str, float]]:
  """Compares several learners with a single one.

  Args:
    turns: number of learners, 1 among them, to their measurements in turns.

  Returns:
    For each number its `num_learners`, medians of `update_ms` and
    `cpu_ms_per_update` (of a learner), and `efficiency`, the median of how many
    updates they made for each update of a single learner in the same turn.
  """

  def updates_per_sec(number):
    return np.array([turn[0]['updates'] / turn[0]['wall_secs']
                     for turn in turns[number]])

  return [{
      'num_learners': number,
      'update_ms': 1e3 / float(np.median(updates_per_sec(number))),
      'cpu_ms_per_update': 1e3 * float(np.median(
          [answer['cpu_secs'] / answer['updates'] for turn in turns[number]
           for answer in turn])),
      'efficiency': float(np.median(
          updates_per_sec(number) / updates_per_sec(1)))}
      for number in sorted(turns)]


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--learners', default='1,2', metavar='N,N',
                      help='how many, a core each; one alone is always among '
                      'them (default: %(default)s)')
  turns_lib.add_flags(parser, rounds=10, secs=3.)
  return parser.parse_args()


def _numbers(args: argparse.Namespace, num_cores: int) -> List[int]:
  numbers = args.learners.split(',')
  if not all(text.isdecimal() and 0 < int(text) <= num_cores
             for text in numbers):
    raise config_lib.UserError(
        f'--learners must be numbers from 1 to {num_cores}, the cores that '
        f'there are, with commas between them, but is {args.learners!r}')
  return sorted({1, *map(int, numbers)})


def _run(args: argparse.Namespace) -> None:
  cores = sorted(os.sched_getaffinity(0))
  numbers = _numbers(args, len(cores))
  turns_lib.check(args)
  gin_config.load(args.config)  # Refused here, in one line.
  with contextlib.ExitStack() as stack:
    groups = [_Group(stack, args.config, cores[:number]) for number in numbers]
    for _ in range(args.rounds):
      for group in groups:
        group.measure(args.seconds)
  results = summarise({group.number: group.turns for group in groups})
  report.show_several_learners(results)
  if args.json:
    report.write_json(args.json, results)


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _run(_parse_args()))


if __name__ == '__main__':
  sys.exit(main())
