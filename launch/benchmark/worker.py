"""Processes that measure something each time they are asked."""

import json
import subprocess
import sys
from typing import Callable, Dict, Sequence

from launch.processes import local

Measurement = Dict[str, float]


def serve(measure: Callable[[float], Measurement]) -> None:
  """Answers on stdout each number of seconds that comes on stdin.

  Args:
    measure: measures for about so many seconds.
  """
  print('ready', flush=True)
  for line in sys.stdin:
    print(json.dumps(measure(float(line))), flush=True)


class Worker:
  """The other end: a process that has called `serve`."""

  def __init__(self, module: str, arguments: Sequence[str]):
    """Starts it; `wait_until_ready` returns when it can be asked."""
    self._name = ' '.join([module, *arguments])
    self._process = subprocess.Popen(
        [sys.executable, '-m', module, *arguments], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env=local.child_environment())

  def wait_until_ready(self) -> None:
    """Returns once it has warmed up."""
    if self._read() != 'ready':
      raise RuntimeError(f'{self._name} printed something else than "ready"')

  def ask(self, secs: float) -> None:
    """Makes it measure; `answer` must be called before the next time."""
    self._process.stdin.write(f'{secs}\n')
    self._process.stdin.flush()

  def answer(self) -> Measurement:
    """What came of `ask`."""
    return json.loads(self._read())

  def close(self) -> None:
    """Ends the process."""
    self._process.kill()
    self._process.communicate()

  def _read(self) -> str:
    line = self._process.stdout.readline()
    if not line:
      raise RuntimeError(f'{self._name} ended with exit code '
                         f'{self._process.wait()}; its errors are above')
    return line.strip()
