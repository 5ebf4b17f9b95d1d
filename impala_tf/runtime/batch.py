"""The loop that runs programs, a limited number at a time, here or on Ray."""

import math
import signal
import time
from typing import Callable, Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import restarts
from impala_tf.runtime import stop_signals
from impala_tf.runtime import supervisor
from impala_tf.runtime import waiting

State = program_lib.State

_STOP_SECS = 9.  # Ctrl-C promises to end within 10.
_DEATHS_WINDOW_SECS = 3600.


class Ended(NamedTuple):
  """How a program ended."""
  exit_code: int  # Negative for a signal.
  was_stopped: bool  # Whether it was asked to, by anyone, before its end.
  error: str  # Cause in one line; empty if the exit code is 0.


def _ended(program: program_lib.Program, were_all_stopped: bool) -> Ended:
  code = program.exit_code
  if program.state is State.LOST:
    return Ended(1, False, f'{program.how_it_ended()}, too often')
  if code is None:
    return Ended(-signal.SIGKILL, True, 'did not stop in time and was killed')
  if code == 0:
    return Ended(code, False, '')
  # A program with a handler reports the signal by its exit code.
  asked = any(code in (-s, 128 + s) for s in stop_signals.STOP_SIGNALS)
  return Ended(code, asked or were_all_stopped, f'{program.how_it_ended()}: '
               f'{program.complaint() or program.reason()}')


# Is called with the name and the end of a program that was started.
OnEnd = Callable[[str, Ended], None]


class Group(NamedTuple):
  """Programs that run together, with a server until the last has ended."""
  names: Sequence[str]
  server: supervisor.Peer | None = None


class Turns:
  """Order in which waiting programs start: here as given, each runs to its end.

  Subclasses may let waiting programs take turns with running ones, which are
  asked to stop and start again later by the same command.
  """
  max_deaths = 0  # Most restarts of a program that dies, within an hour.
  # Of one that is lost. It most likely takes its machine with it.
  max_losses = 3

  def choose(self, waiting: Sequence[str]) -> str:
    """Returns the name of the program to start next."""
    return waiting[0]

  def begin(self, name: str) -> None:
    """Is called before a program starts."""

  def should_yield(self, name: str, waiting: Sequence[str]) -> bool:
    """Returns whether a running program should stop for a waiting program."""
    del name, waiting
    return False


IN_ORDER = Turns()


class _Job(supervisor.Peer):
  """A program with limits on its deaths, and on losses of its node."""
  is_yielding = False  # Whether it was asked to make room for another.

  def __init__(self, program: program_lib.Program, command: Sequence[str],
               turns: Turns):

    def begin(unused_num_starts):
      self.is_yielding = False
      turns.begin(program.name)
      return command

    super().__init__(
        program, begin,
        restarts.Restarts(program, turns.max_deaths, _DEATHS_WINDOW_SECS),
        restarts.Restarts(program, turns.max_losses, math.inf))


class Batch:
  """Programs that run, a fixed number at a time, until all have ended."""

  def __init__(self, num_jobs: int,
               make_program: Callable[[str], program_lib.Program],
               poll_secs: float, room: waiting.Waiting | None = None):
    """Prepares the batch; `room` is polled while none of its programs runs."""
    self._num_jobs = num_jobs
    self._make_program = make_program
    self._poll_secs = poll_secs
    self._room = room
    self._jobs: dict[str, _Job] = {}
    # Servers of groups that have begun, and until when they may stop.
    self._servers: dict[Group, float] = {}
    self._waiting: list[str] = []  # Names of programs without a place.
    self._resting: dict[str, _Job] = {}  # Of some of these.
    self._signals = stop_signals.StopSignals()

  def run(self, commands: Mapping[str, Sequence[str]], on_end: OnEnd,
          turns: Turns = IN_ORDER, groups: Sequence[Group] = ()) -> int | None:
    """Runs all programs, or stops them after a signal, which it returns.

    A program that is lost with its machine starts again elsewhere. `commands`,
    by name, follow `python -m`; `on_end` is called once a program will not
    restart. Groups have no more programs than there are places, and no turns.
    Raises RunFailed or UserError if a group's server cannot restart.
    """
    self._waiting = list(commands)
    group_of = {name: group for group in groups for name in group.names}
    with self._signals as signals:
      try:
        while ((self._waiting or self._jobs or self._servers)
               and signals.first is None):
          while self._waiting and len(self._jobs) < self._num_jobs:
            name = turns.choose(self._waiting)
            group = group_of.get(name, Group((name,)))
            if len(self._jobs) + len(group.names) > self._num_jobs:
              break
            self._add(group, commands, turns)
          self._tend_servers()
          for name in list(self._jobs):
            self._tend(name, on_end, turns)
          if self._room is not None:
            running = any(job.program.state is State.RUNNING
                          for job in self._jobs.values())
            (self._room.restart if running else self._room.poll)()
          time.sleep(self._poll_secs)
        if signals.first is not None:
          self._stop(on_end)
        return signals.first
      finally:
        for job in self._jobs.values():
          job.program.withdraw()
        for server in self._server_programs():
          server.withdraw()

  def _add(self, group: Group, commands: Mapping[str, Sequence[str]],
           turns: Turns) -> None:
    for name in group.names:
      self._waiting.remove(name)
      if name not in self._resting:
        self._resting[name] = _Job(
            self._make_program(name), commands[name], turns)
      self._jobs[name] = self._resting.pop(name)
    if group.server is not None:
      self._servers[group] = math.inf

  def _server_programs(self) -> list[program_lib.Program]:
    return [group.server.program for group in self._servers if group.server]

  def _tend_servers(self) -> None:
    """Restarts servers while their groups' programs run, then stops them."""
    for group, deadline in list(self._servers.items()):
      assert group.server is not None
      program = group.server.program
      program.collect()
      if any(name in self._jobs for name in group.names):
        group.server.tend()
      elif math.isinf(deadline):
        self._servers[group] = time.monotonic() + _STOP_SECS
        program.send(signal.SIGTERM)
      elif (program.state is not State.RUNNING or time.monotonic() >= deadline):
        program.withdraw()
        del self._servers[group]

  def _tend(self, name: str, on_end: OnEnd, turns: Turns) -> None:
    """Places or starts a program, asks it to make room, or handles its end."""
    job = self._jobs[name]
    program = job.program
    program.collect()
    if program.state is State.ENDED:
      is_stopping = self._signals.first is not None
      ended = _ended(program, is_stopping)
      if job.is_yielding and ended.was_stopped:
        program.withdraw()
        self._waiting.append(name)
        self._resting[name] = self._jobs.pop(name)
        return
      if is_stopping or not ended.exit_code:
        self._end(name, ended, on_end)
        return
    elif program.state is State.RUNNING and self._waiting and (
        not job.is_yielding and turns.should_yield(name, self._waiting)):
      job.is_yielding = True
      program.send(signal.SIGTERM)
    try:
      job.tend()
    except (program_lib.RunFailed, config_lib.UserError):
      # It has died too often, or would do so again.
      self._end(name, _ended(program, False), on_end)

  def _end(self, name: str, ended: Ended, on_end: OnEnd) -> None:
    self._jobs.pop(name).program.withdraw()
    on_end(name, ended)

  def _stop(self, on_end: OnEnd) -> None:
    """Asks running programs to stop, so that they write checkpoints."""
    for name, job in list(self._jobs.items()):
      if job.program.state is State.RUNNING:
        # Not SIGINT, which programs that a shell starts with & ignore.
        job.program.send(signal.SIGTERM)
      else:
        self._jobs.pop(name).program.withdraw()
    deadline = time.monotonic() + _STOP_SECS
    program_lib.wait_for_end(
        [job.program for job in self._jobs.values()], deadline, self._signals)
    for name, job in list(self._jobs.items()):
      if job.program.state is not State.ENDED:
        job.program.withdraw()
      self._end(name, _ended(job.program, True), on_end)
    # After the programs, which would wait for a missing server.
    servers = self._server_programs()
    for server in servers:
      server.send(signal.SIGTERM)
    program_lib.wait_for_end(servers, deadline, self._signals)
