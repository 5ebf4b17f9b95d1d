"""The loop that runs a number of programs at a time, and ends them together.

The programs may run on this machine or on others, and need not be of a sweep:
names and commands go in, and how each program ended comes out.
"""

import collections
import math
import signal
import time
from typing import Callable, Dict, Mapping, NamedTuple, Optional, Sequence

from launch.processes import program as program_lib
from launch.processes import restarts
from launch.processes import stop_signals

State = program_lib.State

_STOP_SECS = 9.  # Ctrl-C promises to end within 10.
_STOP_POLL_SECS = 0.05
# A program that is lost so often takes its machine with it, most likely.
_MAX_LOSSES = 3


class Ended(NamedTuple):
  """How a program ended.

  Attributes:
    exit_code: 0 for success; negative for a signal.
    was_stopped: whether it was asked to stop, by anyone, and is not done.
    error: cause in one line; empty where the exit code is 0.
  """
  exit_code: int
  was_stopped: bool
  error: str


def _ended(program: program_lib.Program, was_stopped: bool) -> Ended:
  """Describes the end of a program.

  Args:
    program: program that has ended or was withdrawn.
    was_stopped: whether all programs were asked to stop.
  """
  code = program.exit_code
  if code is None:
    return Ended(
        -signal.SIGKILL, True, 'did not stop in time and was killed')
  if code == 0:
    return Ended(code, False, '')
  # A signal ends a program that does not handle it yet; later the program
  # handles it, and tells of it by its exit code.
  asked = any(code in (-s, 128 + s) for s in stop_signals.STOP_SIGNALS)
  return Ended(code, asked or was_stopped,
               f'{program.how_it_ended()}: {program.complaint()}')


# Is called with the name and the end of a program that was started.
OnEnd = Callable[[str, Ended], None]


class _Job:
  """A program, and how often it may still be lost."""

  def __init__(self, program: program_lib.Program):
    self.program = program
    self.restarts = restarts.Restarts(program, _MAX_LOSSES, math.inf)


class Batch:
  """Runs programs, a fixed number at a time, until all have ended."""

  def __init__(self, num_jobs: int,
               make_program: Callable[[str], program_lib.Program],
               poll_secs: float,
               on_poll: Callable[[bool], None] = lambda is_any_running: None):
    """Starts nothing yet.

    Args:
      num_jobs: most programs at a time.
      make_program: makes a program of its name.
      poll_secs: time between two looks at the programs.
      on_poll: is called after each look, with whether any program runs.
    """
    self._num_jobs = num_jobs
    self._make_program = make_program
    self._poll_secs = poll_secs
    self._on_poll = on_poll
    self._jobs: Dict[str, _Job] = {}

  def run(self, commands: Mapping[str, Sequence[str]],
          on_end: OnEnd) -> Optional[int]:
    """Runs all programs, or those that start before a signal comes.

    Args:
      commands: name of each program (it may have slashes) to its command, which
        follows `python -m`. A program that is lost with its machine is started
        again elsewhere.
      on_end: is called with name and end of each program that was started.

    Returns:
      The signal (SIGINT, SIGTERM) that ended it, else None.
    """
    todo = collections.deque(commands)
    with stop_signals.StopSignals() as signals:
      try:
        while (todo or self._jobs) and signals.first is None:
          while todo and len(self._jobs) < self._num_jobs:
            name = todo.popleft()
            self._jobs[name] = _Job(self._make_program(name))
          for name in list(self._jobs):
            self._tend(name, commands[name], on_end, signals)
          self._on_poll(any(job.program.state is State.RUNNING
                            for job in self._jobs.values()))
          time.sleep(self._poll_secs)
        if signals.first is not None:
          self._stop(on_end, signals)
        return signals.first
      finally:
        for job in self._jobs.values():
          job.program.withdraw()

  def _tend(self, name: str, command: Sequence[str], on_end: OnEnd,
            signals: stop_signals.StopSignals) -> None:
    """Places or starts a program, or takes leave of it if it has ended."""
    job = self._jobs[name]
    program = job.program
    program.collect()
    if program.state is State.ENDED:
      self._end(name, _ended(program, signals.first is not None), on_end)
    elif program.state is State.LOST:
      try:
        job.restarts.note_death(time.monotonic())
        program.place()
      except program_lib.RunFailed:
        self._end(name, Ended(
            1, False,
            f'{program.how_it_ended()}, as {_MAX_LOSSES} times before'), on_end)
    elif program.state is State.ABSENT:
      program.place()
    if program.state is State.PLACED:
      program.start(command)

  def _end(self, name: str, ended: Ended, on_end: OnEnd) -> None:
    self._jobs.pop(name).program.withdraw()
    on_end(name, ended)

  def _stop(self, on_end: OnEnd, signals: stop_signals.StopSignals) -> None:
    """Asks programs that run to stop, so that they write their checkpoints."""
    for name, job in list(self._jobs.items()):
      if job.program.state is not State.RUNNING:
        self._jobs.pop(name).program.withdraw()
      # SIGTERM, because shells have what they start with & ignore SIGINT.
      job.program.send(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECS
    while (self._jobs and time.monotonic() < deadline
           and not signals.are_repeated):
      for name, job in list(self._jobs.items()):
        job.program.collect()
        if job.program.state is State.ENDED:
          self._end(name, _ended(job.program, True), on_end)
      time.sleep(_STOP_POLL_SECS)
    for name, job in list(self._jobs.items()):
      job.program.withdraw()
      self._end(name, _ended(job.program, True), on_end)
