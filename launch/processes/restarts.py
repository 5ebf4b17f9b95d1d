"""Programs that end: what is said of it, and whether they are started again.

The same wherever they run. Standard library only.
"""

import math
import pathlib
import signal
from typing import List, Optional, Sequence

from absl import logging

from impala_tf import config as config_lib

# Where one of several learners has died, others save, or tell whom they lost;
# they take up to five seconds to find out (`learner_group`).
LAST_WORDS_SECS = 8.
_MAX_BACKOFF_SECS = 30.
_LOG_TAIL_LINES = 12

# How a child says that what the user gave cannot work: with this exit code,
# and a line that begins so.
BAD_INPUT = 2
COMPLAINT = 'error: '


class RunFailed(RuntimeError):
  """The run cannot go on; the message holds the culprit's last words."""


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


class _Deaths:
  """Counts deaths of late."""

  def __init__(self, window_secs: float):
    self._window_secs = window_secs
    self._times: List[float] = []

  def add(self, now: float) -> int:
    """Returns how many there were within the window."""
    self._times = [t for t in self._times if now - t < self._window_secs]
    self._times.append(now)
    return len(self._times)


class Restarts:
  """When a program that dies is started again: later and later, then never."""

  def __init__(self, program: Program, max_restarts: int, window_secs: float,
               is_needed: bool = True):
    """It has not died yet.

    Args:
      program: that is restarted.
      max_restarts: within `window_secs`.
      window_secs: see `max_restarts`.
      is_needed: whether the run ends where it has died too often.
    """
    self._program = program
    self._max_restarts = max_restarts
    self._window_secs = window_secs
    self._is_needed = is_needed
    self._deaths = _Deaths(window_secs)

  def note_death(self, now: float) -> float:
    """Says that it has died.

    Args:
      now: in seconds, by any clock.

    Returns:
      When it is to start again, by that clock; infinity for never.

    Raises:
      UserError: where it said that its input cannot work.
      RunFailed: where it has died too often, and is needed.
    """
    program = self._program
    if program.exit_code == BAD_INPUT:  # It would be bad the next time, too.
      raise config_lib.UserError(program.complaint())
    number = self._deaths.add(now)
    if number > self._max_restarts and not self._is_needed:
      logging.error('%s %s, too often; training goes on without it; see %s',
                    program.name, program.how_it_ended(), program.log_path)
      return math.inf
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


class JointRestarts:
  """Whether programs that are nothing without each other start again together.

  As several learners: where one of them dies all do, from the last checkpoint.
  """

  def __init__(self, max_restarts: int, window_secs: float):
    """None has died yet.

    Args:
      max_restarts: within `window_secs`.
      window_secs: see `max_restarts`.
    """
    self._max_restarts = max_restarts
    self._deaths = _Deaths(window_secs)

  def note_deaths(self, dead: Sequence[Program], now: float) -> None:
    """Says that these have died, one at least, and all are to start again.

    Args:
      dead: with their exit codes, or None where they are lost.
      now: in seconds, by any clock.

    Raises:
      UserError: where one said that its input cannot work.
      RunFailed: where that was too often.
    """
    # The first were lost or killed, and others ended because of them.
    dead = sorted(dead, key=lambda program: (
        program.exit_code is not None, program.exit_code or 0))
    for program in dead:
      if program.exit_code == BAD_INPUT:
        program.check()
    number = self._deaths.add(now)
    if number > self._max_restarts:
      dead[0].check()
    logging.warning(
        '%s; all processes start again, from the last checkpoint: restart %d '
        'of %d; see %s', ', '.join(
            f'{program.name} {program.how_it_ended()}' for program in dead),
        number, self._max_restarts, dead[0].log_path)
