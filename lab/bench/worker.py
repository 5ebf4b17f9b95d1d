"""Worker processes that measure something each time they are asked."""

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Callable, Iterable, Sequence

from impala_tf import config as config_lib
from impala_tf.cli import program
from impala_tf.runs import gin_config
from impala_tf.runtime import local
from impala_tf.runtime import sizing
from impala_tf.runtime import user_modules

Measurement = dict[str, float]


def parse_args(description: str, names: Iterable[str], has_port: bool = False
               ) -> tuple[str, config_lib.Config, int | None]:
  """Parses a worker's command line: NAME CONFIG.gin [PORT] [--import=FILE.py].

  `names` are the possible measurements. Returns name, config fitted to the
  machine, and port.
  """
  parser = argparse.ArgumentParser(description=description)
  parser.add_argument('name', choices=names)
  parser.add_argument('config')
  if has_port:
    parser.add_argument('port', type=int)
  program.add_import(parser)
  args = parser.parse_args()
  user_modules.load(args.modules)
  config = sizing.fit(gin_config.load(args.config))
  return args.name, config, args.port if has_port else None


def repeatedly(run: Callable[[], int]) -> Callable[[float], Measurement]:
  """Returns a function for `serve` that measures repeated calls of `run`."""

  def measure(secs):
    num_steps = 0
    end, cpu_start = time.monotonic() + secs, time.process_time()
    while time.monotonic() < end:
      num_steps += run()
    return {'steps': num_steps, 'cpu_secs': time.process_time() - cpu_start}

  return measure


def serve(measure: Callable[..., Measurement]) -> None:
  """Answers each line of numbers on stdin with a measurement on stdout.

  `measure` is a function of these numbers, the first of which are the seconds
  to measure for.
  """
  print(flush=True)  # It is ready.
  for line in sys.stdin:
    print(json.dumps(measure(*map(float, line.split()))), flush=True)


class Worker:
  """A process that calls `serve`, as its parent sees it."""

  def __init__(self, module: str, arguments: Sequence[str]):
    """Starts the process, which warms up; see `wait_until_ready`."""
    self._name = ' '.join([module, *arguments])
    self._process = subprocess.Popen(
        [sys.executable, '-m', module, *arguments], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env={**local.MALLOC, **os.environ})
    assert self._process.stdin and self._process.stdout  # They are pipes.
    self._questions = self._process.stdin
    self._answers = self._process.stdout

  def wait_until_ready(self) -> None:
    """Waits until the process has warmed up."""
    self._read()

  def ask(self, *numbers: float) -> None:
    """Asks for a measurement; call `answer` before the next `ask`.

    `numbers` are arguments of its `measure`.
    """
    self._questions.write(' '.join(map(str, numbers)) + '\n')
    self._questions.flush()

  def answer(self) -> Measurement:
    """Waits for the measurement that `ask` has started, and returns it."""
    return json.loads(self._read())

  def close(self) -> None:
    """Ends the process."""
    self._process.kill()
    self._process.communicate()

  def _read(self) -> str:
    line = self._answers.readline()
    if not line:
      raise RuntimeError(f'{self._name} ended with exit code '
                         f'{self._process.wait()}; its errors are above')
    return line.strip()
