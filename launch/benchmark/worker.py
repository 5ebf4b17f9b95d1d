"""Worker processes that measure something each time they are asked."""

import json
import subprocess
import sys
import types
from typing import Callable, Dict, Mapping, Sequence

from launch.processes import local

Measurement = Dict[str, float]

_READY = 'ready'


def serve(measure: Callable[[float], Measurement],
          facts: Mapping[str, str] = types.MappingProxyType({})) -> None:
  """Answers each number of seconds on stdin with a measurement on stdout.

  Args:
    measure: function that measures for about the given seconds.
    facts: what the process says of itself before it is asked, by name.
  """
  print(json.dumps({_READY: dict(facts)}), flush=True)
  for line in sys.stdin:
    print(json.dumps(measure(float(line))), flush=True)


class Worker:
  """A process that calls `serve`, as its parent sees it."""

  def __init__(self, module: str, arguments: Sequence[str]):
    """Starts the process, which warms up; see `wait_until_ready`."""
    self._name = ' '.join([module, *arguments])
    self._process = subprocess.Popen(
        [sys.executable, '-m', module, *arguments], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env=local.child_environment())

  def wait_until_ready(self) -> Dict[str, str]:
    """Waits until the process has warmed up, and returns its facts."""
    return json.loads(self._read())[_READY]

  def ask(self, secs: float) -> None:
    """Makes the process measure; `answer` must be called before the next."""
    self._process.stdin.write(f'{secs}\n')
    self._process.stdin.flush()

  def answer(self) -> Measurement:
    """Waits for the measurement that `ask` has started, and returns it."""
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
