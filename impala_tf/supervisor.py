"""Keeps a run's processes alive, and ends them together.

Children are programs of their own (nothing is forked, Atari's emulator would
hang). Each gets a pipe as standard input that this process never writes to:
when the supervisor goes away, however it dies, children read its end and stop.
Standard library only.
"""

import functools
import math
import os
import pathlib
import signal
import subprocess
import time
from typing import Callable, Dict, List, Optional, Sequence

from absl import logging

from impala_tf import config as config_lib

_POLL_SECS = 0.2
_STOP_SECS = 8.  # Ctrl-C promises to end within 10.
_LAST_WORDS_SECS = 3.
_MAX_BACKOFF_SECS = 30.
_LOG_TAIL_LINES = 12
# glibc hands large blocks back to the kernel at once and takes the next with a
# page fault for every 4 KiB: half of what sending parameters costs. These keep
# blocks of up to 32 MiB; other C libraries ignore them.
MALLOC = {'MALLOC_MMAP_THRESHOLD_': str(32 * 2**20),
           'MALLOC_TRIM_THRESHOLD_': str(2**30)}

# How a child says that what the user gave cannot work: with this exit code,
# and a line that begins so.
BAD_INPUT = 2
COMPLAINT = 'error: '

# From how often it was started before, to a program and its arguments.
Command = Callable[[int], Sequence[str]]


class RunFailed(RuntimeError):
  """The run cannot go on; the message holds the culprit's last words."""


def child_environment() -> Dict[str, str]:
  """Environment variables of learners and actors."""
  return {**MALLOC, **os.environ}


class Program:
  """What is said of a program by its exit code and its log file.

  Attributes:
    name: of the program, for messages.
    log_path: of the file.
  """

  def __init__(self, name: str, log_dir: pathlib.Path):
    self.name = name
    self.log_path = log_dir / f'{name}.log'
    self._log_start = 0  # Bytes; before are the words of earlier processes.

  @property
  def exit_code(self) -> Optional[int]:
    """None while it runs; negative for a signal."""
    raise NotImplementedError

  def _log_lines(self) -> List[str]:
    text = self.log_path.read_bytes()[self._log_start:]
    return text.decode('utf-8', errors='replace').splitlines()

  def last_words(self) -> str:
    """The end of its log."""
    return '\n'.join(self._log_lines()[-_LOG_TAIL_LINES:])

  def complaint(self) -> str:
    """The line in which it told what is wrong with its input."""
    # Anywhere: libraries may have had much to say after it.
    found = [line for line in self._log_lines() if line.startswith(COMPLAINT)]
    return found[-1][len(COMPLAINT):] if found else f'see {self.log_path}'

  def check(self) -> None:
    """Raises what it has ended with, unless with success.

    Raises:
      UserError: where it said that its input cannot work.
      RunFailed: anything else.
    """
    if self.exit_code == BAD_INPUT:
      raise config_lib.UserError(self.complaint())
    if self.exit_code != 0:
      raise RunFailed(
          f'the {self.name} {self.how_it_ended()}; the end of '
          f'{self.log_path}:\n{self.last_words()}')

  def how_it_ended(self) -> str:
    """In words."""
    code = self.exit_code
    if code is not None and code < 0:
      return f'was killed by {signal.Signals(-code).name}'
    return f'ended with exit code {code}'


class Child(Program):
  """One process with its log file."""

  def __init__(self, name: str, log_dir: pathlib.Path):
    super().__init__(name, log_dir)
    self._process: Optional[subprocess.Popen] = None

  def start(self, command: Sequence[str], **options) -> None:
    """Starts it in a session of its own, so that Ctrl-C does not reach it.

    Args:
      command: the program and its arguments.
      **options: of `subprocess.Popen`.
    """
    self.close()
    with open(self.log_path, 'ab') as log:
      self._log_start = log.tell()
      self._process = subprocess.Popen(
          command, stdin=subprocess.PIPE, stdout=log, stderr=log,
          start_new_session=True, **{'env': child_environment(), **options})

  @property
  def exit_code(self) -> Optional[int]:
    """None while it runs; negative for a signal."""
    return self._process.poll()

  @property
  def is_running(self) -> bool:
    """Whether it was started and has not ended."""
    return self._process is not None and self._process.poll() is None

  def send(self, signum: int) -> None:
    """Sends a signal if it still runs."""
    if self.is_running:
      self._process.send_signal(signum)

  def close(self) -> None:
    """Reaps it and closes its pipe; kills it if it still runs."""
    if self._process is not None:
      self.send(signal.SIGKILL)
      self._process.wait()
      self._process.stdin.close()


class Restarts:
  """When a program that dies is started again: later and later, then never."""

  def __init__(self, program: Program, max_restarts: int, window_secs: float):
    """It has not died yet.

    Args:
      program: that is restarted.
      max_restarts: within `window_secs`.
      window_secs: see `max_restarts`.
    """
    self._program = program
    self._max_restarts = max_restarts
    self._window_secs = window_secs
    self._deaths: List[float] = []

  def note_death(self, now: float) -> float:
    """Says that it has died.

    Args:
      now: in seconds, by any clock.

    Returns:
      When it is to start again, by that clock.

    Raises:
      UserError: where it said that its input cannot work.
      RunFailed: where it has died too often.
    """
    program = self._program
    if program.exit_code == BAD_INPUT:  # It would be bad the next time, too.
      raise config_lib.UserError(program.complaint())
    self._deaths = [t for t in self._deaths if now - t < self._window_secs]
    self._deaths.append(now)
    number = len(self._deaths)
    if number > self._max_restarts:
      raise RunFailed(
          f'{program.name} {program.how_it_ended()}: death {number} within '
          f'{self._window_secs:.0f} s; the end of {program.log_path}:\n'
          f'{program.last_words()}')
    wait_secs = min(2.**(number - 1), _MAX_BACKOFF_SECS)
    logging.warning(
        '%s %s; restart %d of %d in %.0f s; see %s', program.name,
        program.how_it_ended(), number, self._max_restarts, wait_secs,
        program.log_path)
    return now + wait_secs


class _Slot:
  """A child that is restarted when it dies."""

  def __init__(self, child: Child, command: Command, restarts: Restarts,
               is_needed: bool = True):
    self.child = child
    self.command = command
    self.restarts = restarts
    self.is_needed = is_needed
    self.attempts = 0
    self.due: Optional[float] = 0.  # When to start; None while it runs.


class Supervisor:
  """Learners, mostly one, their actors, and perhaps an evaluator."""

  def __init__(self, learner_commands: Sequence[Sequence[str]],
               actor_command: Callable[[int, int], Sequence[str]],
               num_actors: int, log_dir: str, max_restarts: int,
               restart_window_secs: float,
               evaluator_command: Optional[Command] = None):
    """Starts nothing yet.

    Args:
      learner_commands: the program of each, the chief's first.
      actor_command: from task and attempt (0 at first) to the program.
      num_actors: processes.
      log_dir: gets a file a child.
      max_restarts: of one actor within `restart_window_secs`, and likewise of
        all processes where one of several learners dies.
      restart_window_secs: see `max_restarts`.
      evaluator_command: of an evaluator; None for none. If it dies too often
        training goes on without.
    """
    directory = pathlib.Path(log_dir)
    directory.mkdir(parents=True, exist_ok=True)
    self._learner_commands = learner_commands
    self._learners = [Child(f'learner_{i}' if i else 'learner', directory)
                      for i in range(len(learner_commands))]
    self._learner_deaths: List[float] = []
    self._max_restarts = max_restarts
    self._window_secs = restart_window_secs

    def slot(name, command, is_needed=True):
      child = Child(name, directory)
      restarts = Restarts(child, max_restarts, restart_window_secs)
      return _Slot(child, command, restarts, is_needed)

    self._slots = [
        slot(f'actor_{i}', functools.partial(actor_command, i))
        for i in range(num_actors)]
    if evaluator_command is not None:
      self._slots.append(slot('evaluator', evaluator_command, is_needed=False))
    self._stop_signal: Optional[int] = None

  def run(self, on_poll: Callable[[], None]) -> Optional[int]:
    """Runs until the learners end or a signal comes.

    Args:
      on_poll: is called about five times a second.

    Returns:
      None if the learners ended well, else the signal (SIGINT, SIGTERM) that
      ended the run.

    Raises:
      RunFailed: where the only learner died, or one of several learners or an
        actor too often.
      UserError: where a child says that its input cannot work.
    """
    handlers = {s: signal.signal(s, self._on_signal)
                for s in (signal.SIGINT, signal.SIGTERM)}
    try:
      self._start_all()
      while self._stop_signal is None:
        if self._have_learners_ended():
          return None
        self._tend_slots()
        on_poll()
        time.sleep(_POLL_SECS)
      self._stop()
      return self._stop_signal
    finally:
      for child in self._children():
        child.close()
      for signum, handler in handlers.items():
        signal.signal(signum, handler)
      on_poll()

  def _children(self) -> List[Child]:
    return self._learners + [slot.child for slot in self._slots]

  def _on_signal(self, signum, unused_frame):
    if self._stop_signal is not None:  # Asked twice: at once, then.
      for child in self._children():
        child.send(signal.SIGKILL)
    self._stop_signal = signum

  def _start_all(self):
    for child in self._children():
      child.close()
    for learner, command in zip(self._learners, self._learner_commands):
      learner.start(command)
    for slot in self._slots:
      if slot.due is None:
        slot.due = 0.

  def _have_learners_ended(self) -> bool:
    """Whether all have, and well; where one of several has died all restart."""
    dead = [child for child in self._learners
            if not child.is_running and child.exit_code]
    if not dead:
      return not any(child.is_running for child in self._learners)
    if len(self._learners) == 1:
      dead[0].check()
    self._wait_for_learners(_LAST_WORDS_SECS)  # That others may save, or tell.
    dead.sort(key=lambda child: child.exit_code)  # The first were killed.
    for child in dead:
      if child.exit_code == BAD_INPUT:
        child.check()
    now = time.monotonic()
    self._learner_deaths = [t for t in self._learner_deaths
                            if now - t < self._window_secs] + [now]
    if len(self._learner_deaths) > self._max_restarts:
      dead[0].check()
    logging.warning(
        '%s; all processes start again, from the last checkpoint: restart %d '
        'of %d; see %s', ', '.join(
            f'{child.name} {child.how_it_ended()}' for child in dead),
        len(self._learner_deaths), self._max_restarts, dead[0].log_path)
    self._start_all()
    return False

  def _wait_for_learners(self, secs: float):
    """Returns when all have ended, or after so long."""
    deadline = time.monotonic() + secs
    while time.monotonic() < deadline and any(
        child.is_running for child in self._learners):
      time.sleep(0.05)

  def _tend_slots(self):
    """Starts what is due, and notes deaths."""
    now = time.monotonic()
    for slot in self._slots:
      if slot.due is None and not slot.child.is_running:
        self._note_death(slot, now)
      elif slot.due is not None and now >= slot.due:
        slot.child.start(slot.command(slot.attempts))
        slot.attempts += 1
        slot.due = None

  def _note_death(self, slot: _Slot, now: float):
    try:
      slot.due = slot.restarts.note_death(now)
    except RunFailed:
      if slot.is_needed:
        raise
      slot.due = math.inf
      child = slot.child
      logging.error('%s %s, too often; training goes on without it; see %s',
                    child.name, child.how_it_ended(), child.log_path)

  def _stop(self):
    """Actors have nothing to save; the learners write a checkpoint."""
    for child in self._children():
      child.send(signal.SIGTERM)
    self._wait_for_learners(_STOP_SECS)
    if any(child.is_running for child in self._learners):
      raise RunFailed(f'the learner did not stop within {_STOP_SECS:.0f} s and '
                      'is killed; the run resumes from its last checkpoint')
    for learner in self._learners:
      # It handles SIGTERM from its start-up on; before, there is nothing to
      # save.
      if learner.exit_code not in (-signal.SIGTERM, 128 + signal.SIGTERM):
        learner.check()
