"""Measures another library's training in turns with a run of this one.

    python -m lab.bench.peer --command='COMMAND' --count='REGEX'

The run is suspended while the other's command trains, and goes on after it has
been ended; so in turns, since a machine's speed changes from minute to minute.
See peers.md for commands of other libraries. Needs a machine with nothing else
to do.
"""

import argparse
import collections
import contextlib
import math
import re
import shlex
import statistics
import subprocess
import sys
import threading
import time
from typing import NamedTuple

import psutil

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.runs import gin_config
from impala_tf.storage import files
from lab.bench import quiet
from lab.bench import report
from lab.bench import training
from lab.bench import turns

_START_SECS = 300.  # At most, from the command to its first number.
_WARM_UP_SECS = 15.
_NUM_LAST_LINES = 5


class Speed(NamedTuple):
  """Speed and CPU cost of a training run."""
  frames_per_sec: float  # Environment frames that were learned from.
  cpu_secs_per_1000_frames: float  # Of all its processes.


class _Mark(NamedTuple):
  """Progress of a command when it printed a line."""
  secs: float
  frames: int
  cpu_secs: float


def measure(command: str, count: str, frames_per_count: float, secs: float,
            warm_up_secs: float = _WARM_UP_SECS) -> Speed:
  """Runs a training command, measures its speed, and ends it.

  Args:
    command: command line; its output has the progress.
    count: regular expression of the progress, with one group: a whole number.
    frames_per_count: environment frames for each count.
    secs: time to measure.
    warm_up_secs: time from the first number above 0 that is not measured.

  Raises:
    UserError: if the command cannot be run, or does not get on.
  """
  try:
    process = psutil.Popen(
        shlex.split(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True)
  except OSError as error:
    raise config_lib.UserError(f'--command: {error}') from error
  deadline = threading.Timer(
      _START_SECS + 2 * (warm_up_secs + secs), training.kill, [process])
  deadline.start()
  first, marks = None, []
  last_lines: collections.deque[str] = collections.deque(maxlen=_NUM_LAST_LINES)
  try:
    for line in process.stdout:
      last_lines.append(line)
      found = re.search(count, line)
      if not found or not int(found.group(1)):
        continue
      mark = _Mark(time.monotonic(), int(found.group(1)), _cpu_secs(process))
      first = first or mark
      if mark.secs - first.secs >= warm_up_secs:
        marks.append(mark)
        if mark.secs - marks[0].secs >= secs:
          break
  finally:
    deadline.cancel()
    training.kill(process)
    process.stdout.close()
  if (len(marks) < 2 or marks[-1].secs - marks[0].secs < secs
      or marks[-1].frames <= marks[0].frames):
    raise config_lib.UserError(
        f'--command did not get on, by its lines with {count!r}; it ended with:'
        f' {" / ".join(map(str.strip, last_lines))}')
  start, end = marks[0], marks[-1]
  frames = frames_per_count * (end.frames - start.frames)
  return Speed(frames / (end.secs - start.secs),
               (end.cpu_secs - start.cpu_secs) / frames * 1e3)


def _cpu_secs(process: psutil.Popen) -> float:
  """Adds up the CPU time of a process and of all that it started."""
  secs = 0.
  for member in training.process_tree(process):
    with contextlib.suppress(psutil.NoSuchProcess):
      secs += sum(member.cpu_times()[:2])
  return secs


def _speed_of_run(run: training.TrainingRun, secs: float) -> Speed:
  window = run.measure(secs)
  return Speed(window.frames / window.secs,
               sum(window.cpu_secs.values()) / window.frames * 1e3)


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(prog='peer', description=__doc__)
  turns.add_flags(parser, rounds=3, secs=30.)
  command_line.add_gin_binding(parser)
  parser.add_argument('--command', required=True,
                      help="the other library's, which trains until it is "
                      'ended')
  parser.add_argument('--count', required=True, metavar='REGEX',
                      help='how far it is by what it prints; its group is a '
                      'whole number')
  parser.add_argument('--frames_per_count', type=float, default=1.,
                      help='4 where it counts steps of 4 frames (default: '
                      '%(default)s)')
  return parser.parse_args()


def _check(args: argparse.Namespace) -> None:
  """Raises UserError if a flag's value cannot be used."""
  turns.check(args)
  try:
    num_groups = re.compile(args.count).groups
  except re.error as error:
    raise config_lib.UserError(
        f'--count: {args.count!r} is no regular expression: {error}') from error
  if num_groups != 1:
    raise config_lib.UserError(
        f'--count: {args.count!r} must have one group, for the number, but has '
        f'{num_groups}')
  config_lib.check_range('--frames_per_count', args.frames_per_count,
                         above=0, below=math.inf)
  gin_config.load(args.config, args.gin_binding)


def main() -> None:
  training.raise_on_sigterm()
  args = _parse_args()
  _check(args)
  quiet.warn()
  run = training.TrainingRun(args.config, args.gin_binding)
  speeds: dict[str, list[Speed]] = {'peer': [], 'impala_tf': []}
  try:
    run.measure(_WARM_UP_SECS)
    for _ in range(args.rounds):
      run.hold()
      speeds['peer'].append(measure(
          args.command, args.count, args.frames_per_count, args.seconds))
      run.go_on()
      speeds['impala_tf'].append(_speed_of_run(run, args.seconds))
  finally:
    run.close()
  results = {
      name: Speed(*map(statistics.fmean, zip(*rounds)))._asdict()
      for name, rounds in speeds.items()}
  report.show_peer(results)
  if args.json:
    files.write_json(args.json, results)


if __name__ == '__main__':
  sys.exit(program.run(main))
