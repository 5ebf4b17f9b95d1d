"""Runs programs on this machine, so many at a time, and ends them together.

It knows nothing of sweeps: names and commands in, how each ended out.
"""

import collections
import ctypes
import os
import pathlib
import signal
import sys
import time
from typing import Callable, Dict, Mapping, NamedTuple, Optional, Sequence

from launch.processes import restarts
from launch.processes import supervisor

_POLL_SECS = 0.1
_STOP_SECS = 9.  # Ctrl-C promises to end within 10.
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_ASKED_TO_STOP = (signal.SIGINT, signal.SIGTERM)

_libc = ctypes.CDLL(None)


class Ended(NamedTuple):
  """How a program ended.

  Attributes:
    exit_code: 0 for the best; negative for a signal.
    was_stopped: it was asked to stop, by whomever, and is not done.
    error: one line; empty where the exit code is 0.
  """
  exit_code: int
  was_stopped: bool
  error: str


def ended(program: restarts.Program, was_stopped: bool) -> Ended:
  """How it ended.

  Args:
    program: that has ended.
    was_stopped: all were asked to.
  """
  code = program.exit_code
  if code == 0:
    return Ended(code, False, '')
  # Before it handles them a signal ends it; later it says so.
  asked = any(code in (-s, 128 + s) for s in _ASKED_TO_STOP)
  return Ended(code, asked or was_stopped,
               f'{program.how_it_ended()}: {program.complaint()}')


class LocalEngine:
  """Programs as processes of this one; if it dies they are asked to stop."""

  def __init__(self, num_jobs: int, log_dir: str,
               environment: Mapping[str, str], keep_open: int):
    """Starts nothing yet.

    Args:
      num_jobs: programs at a time.
      log_dir: each program has its output in `log_dir/NAME.log`.
      environment: variables for the programs, beside those of this process,
        which win.
      keep_open: a file descriptor that programs hold as long as they live, so
        that its lock tells of them even after this process.
    """
    self._num_jobs = num_jobs
    self._log_dir = pathlib.Path(log_dir)
    self._environment = {**environment, **supervisor.child_environment()}
    self._keep_open = keep_open
    self._running: Dict[str, supervisor.Child] = {}
    self._stop_signal: Optional[int] = None

  def run(self, commands: Mapping[str, Sequence[str]],
          on_end: Callable[[str, Ended], None]) -> Optional[int]:
    """Runs all, or until a signal comes.

    Args:
      commands: name (it may have slashes) to what follows `python -m`.
      on_end: is called with name and end of each program that was started.

    Returns:
      The signal (SIGINT, SIGTERM) that ended it, else None.
    """
    waiting = collections.deque(commands.items())
    handlers = {s: signal.signal(s, self._on_signal) for s in _ASKED_TO_STOP}
    try:
      while (waiting or self._running) and self._stop_signal is None:
        while waiting and len(self._running) < self._num_jobs:
          self._start(*waiting.popleft())
        self._collect(on_end)
        time.sleep(_POLL_SECS)
      if self._stop_signal is not None:
        self._stop(on_end)
      return self._stop_signal
    finally:
      for child in self._running.values():
        child.close()
      for signum, handler in handlers.items():
        signal.signal(signum, handler)

  def _on_signal(self, signum, unused_frame):
    if self._stop_signal is not None:  # Asked twice: at once, then.
      for child in self._running.values():
        child.send(signal.SIGKILL)
    self._stop_signal = signum

  def _start(self, name: str, command: Sequence[str]):
    (self._log_dir / name).parent.mkdir(parents=True, exist_ok=True)
    child = supervisor.Child(name, self._log_dir)
    parent = os.getpid()

    def stop_with_parent():  # Between fork and exec.
      _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
      if os.getppid() != parent:  # It died before that could be told.
        os._exit(1)

    child.start([sys.executable, '-m', *command], env=self._environment,
                pass_fds=(self._keep_open,), preexec_fn=stop_with_parent)
    self._running[name] = child

  def _collect(self, on_end: Callable[[str, Ended], None]):
    """Takes leave of those that have ended."""
    for name, child in list(self._running.items()):
      if not child.is_running:
        child.close()
        del self._running[name]
        on_end(name, ended(child, self._stop_signal is not None))

  def _stop(self, on_end: Callable[[str, Ended], None]):
    # SIGTERM, because shells have what they start with & ignore SIGINT.
    for child in self._running.values():
      child.send(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECS
    while self._running and time.monotonic() < deadline:
      self._collect(on_end)
      time.sleep(0.05)
    for child in self._running.values():
      child.close()
    self._collect(on_end)
