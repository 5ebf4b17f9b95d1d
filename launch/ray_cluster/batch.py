"""Runs programs on a Ray cluster, so many at a time, and ends them together.

The same as `launch.processes.batch` on one machine: names and commands in, how
each ended out.
"""

import collections
import math
import pathlib
import signal
import time
from typing import Callable, Dict, List, Mapping, Optional, Sequence

from impala_tf.processes import waiting
from launch.processes import batch as local_batch
from launch.processes import restarts
from launch.ray_cluster import connection as ray_connection
from launch.ray_cluster import program as ray_program
from launch.run import program

State = ray_program.State

_POLL_SECS = 0.5
_STOP_SECS = 9.  # Ctrl-C promises to end within 10.
# A program that is lost so often takes its node with it, most likely.
_MAX_LOSSES = 3


class _Run:
  """A program, and how often it may still be lost."""

  def __init__(self, own: ray_program.RayProgram):
    self.program = own
    self.restarts = restarts.Restarts(own, _MAX_LOSSES, math.inf)


class RayEngine:
  """Programs on nodes of a cluster; if this process dies they are killed."""

  def __init__(self, num_jobs: int, log_dir: str,
               environment: Mapping[str, str],
               needs: ray_connection.Resources, needed: Sequence[str],
               wait_secs: float):
    """Starts nothing yet.

    Args:
      num_jobs: programs at a time.
      log_dir: each program has its output in `log_dir/NAME.log`, here.
      environment: variables for the programs.
      needs: what Ray reserves for each.
      needed: paths that nodes must have.
      wait_secs: for room at most, while none of these programs runs.
    """
    self._num_jobs = num_jobs
    self._log_dir = pathlib.Path(log_dir)
    self._environment = environment
    self._needs = needs
    self._needed = needed
    self._waiting = waiting.Waiting(
        'room on the cluster', wait_secs, lambda line: print(line, flush=True))
    self._waiting.restart()  # Says nothing at first.
    self._runs: Dict[str, _Run] = {}
    self._signals: List[int] = []

  def run(self, commands: Mapping[str, Sequence[str]],
          on_end: Callable[[str, local_batch.Ended], None]) -> Optional[int]:
    """Runs all, or until a signal comes.

    Args:
      commands: name (it may have slashes) to what follows `python -m`. One that
        is lost with its node is started again elsewhere.
      on_end: is called with name and end of each program that was started.

    Returns:
      The signal (SIGINT, SIGTERM) that ended it, else None.

    Raises:
      PeerMissing: where there was no room in time.
    """
    todo = collections.deque(commands)
    handlers = {s: signal.signal(s, lambda s, frame: self._signals.append(s))
                for s in program.STOP_SIGNALS}
    try:
      while (todo or self._runs) and not self._signals:
        while todo and len(self._runs) < self._num_jobs:
          name = todo.popleft()
          self._runs[name] = _Run(ray_program.RayProgram(
              name, self._log_dir, self._needs))
        for name in list(self._runs):
          self._tend(name, commands[name], on_end)
        self._wait_for_room()
        time.sleep(_POLL_SECS)
      if self._signals:
        self._stop(on_end)
        return self._signals[0]
      return None
    finally:
      for run in self._runs.values():
        run.program.withdraw()
      for signum, handler in handlers.items():
        signal.signal(signum, handler)

  def _wait_for_room(self):
    if any(run.program.state is State.RUNNING for run in self._runs.values()):
      self._waiting.restart()
    else:
      self._waiting.poll()

  def _tend(self, name: str, command: Sequence[str],
            on_end: Callable[[str, local_batch.Ended], None]):
    """Brings it nearer to its end."""
    run = self._runs[name]
    own = run.program
    own.collect()
    if own.state is State.ABSENT:
      own.place()
    elif own.state is State.PLACED:
      own.start(command, self._environment, self._needed)
    elif own.state is State.ENDED:
      self._end(name, local_batch.ended(own, bool(self._signals)), on_end)
    elif own.state is State.LOST:
      try:
        run.restarts.note_death(time.monotonic())
        own.place()
      except restarts.RunFailed:
        self._end(name, local_batch.Ended(
            1, False, f'{own.how_it_ended()}, as {_MAX_LOSSES} times before'),
                  on_end)

  def _end(self, name: str, ended: local_batch.Ended,
           on_end: Callable[[str, local_batch.Ended], None]):
    self._runs.pop(name).program.withdraw()
    on_end(name, ended)

  def _stop(self, on_end: Callable[[str, local_batch.Ended], None]):
    """Has those that run write their checkpoints."""
    for name, run in list(self._runs.items()):
      if run.program.state is not State.RUNNING:
        run.program.withdraw()
        del self._runs[name]
      run.program.send(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECS
    while self._runs and time.monotonic() < deadline and (
        len(self._signals) < 2):  # Asked twice: at once, then.
      for name, run in list(self._runs.items()):
        run.program.collect()
        if run.program.state is State.ENDED:
          self._end(name, local_batch.ended(run.program, True), on_end)
      time.sleep(0.05)
    for name in list(self._runs):
      self._end(name, local_batch.Ended(
          -signal.SIGKILL, True, 'did not stop in time and was killed'), on_end)
