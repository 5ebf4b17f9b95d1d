"""Restart policy for programs that die."""

import logging
import math
import signal
from typing import Sequence

from impala_tf.runtime import child
from impala_tf.runtime import program as program_lib

# If one of several learners has died, the others save, or report which one they
# lost; they take up to five seconds to notice (`learner_group`).
LAST_WORDS_SECS = 8.
_MAX_BACKOFF_SECS = 30.

_log = logging.getLogger('restarts')


class _Policy:
  """A limit of restarts within a sliding window of time."""

  def __init__(self, max_restarts: int, window_secs: float):
    self._max_restarts = max_restarts
    self._window_secs = window_secs
    self._times: list[float] = []  # Of recent deaths.

  def _count(self, now: float) -> int:
    """Adds a death; returns the number of deaths within the window."""
    self._times = [t for t in self._times if now - t < self._window_secs]
    self._times.append(now)
    return len(self._times)


class Restarts(_Policy):
  """Restart policy for one program: growing waits, then no restart."""

  def __init__(self, program: program_lib.Program, max_restarts: int,
               window_secs: float, is_needed: bool = True,
               first_words: str = ''):
    """Starts with 0 deaths; too many end the run only if `is_needed`.

    A program that fails twice in a row before it has said `first_words` is not
    started again.
    """
    super().__init__(max_restarts, window_secs)
    self._program = program
    self._is_needed = is_needed
    self._first_words = first_words
    self._num_in_vain = 0  # Failures in a row before the first words.

  def note_death(self, now: float) -> float:
    """Decides when a program that has just died starts again.

    Returns a time by the clock of `now`, in seconds; infinity for never. Raises
    UserError for bad input, RunFailed if a needed one has died too often.
    """
    program = self._program
    if program.exit_code == child.BAD_INPUT:  # It would be bad again.
      program.check()
    how = f'{program.name} {program.how_it_ended()}'
    number = self._count(now)
    # A program that is lost, or killed from outside, has not failed.
    if program.exit_code not in (None, -signal.SIGKILL, -signal.SIGTERM,
                                 128 + signal.SIGTERM):
      self._num_in_vain += 1
    if program.has_said(self._first_words):
      self._num_in_vain = 0
    if self._num_in_vain > 1:
      raise program_lib.RunFailed(f'{how}, twice before it has done anything: '
                                  f'{program.last_words()}')
    if number > self._max_restarts:
      if self._is_needed:
        raise program_lib.RunFailed(
            f'{how}: death {number} within {self._window_secs:.0f} s; '
            f'{program.last_words()}')
      _log.error('%s, too often; training goes on without it; see %s', how,
                 program.log_path)
      return math.inf
    wait_secs = min(2**(number - 1), _MAX_BACKOFF_SECS)
    _log.warning('%s; restart %d of %d in %.0f s; %s', how, number,
                 self._max_restarts, wait_secs, program.reason())
    return now + wait_secs


class JointRestarts(_Policy):
  """Restart policy for learners: if one dies, all start again."""

  def note_deaths(self, dead: Sequence[program_lib.Program],
                  now: float) -> None:
    """Counts a joint restart of all programs; raises if there were too many.

    Raises UserError for bad input, RunFailed after too many deaths.
    """
    # The first were lost or killed, and others ended because of them.
    dead = sorted(dead, key=lambda program: (
        program.exit_code is not None, program.exit_code or 0))
    for program in dead:
      if program.exit_code == child.BAD_INPUT:
        program.check()
    number = self._count(now)
    if number > self._max_restarts:
      dead[0].check()
    _log.warning(
        '%s; all processes start again, from the last checkpoint: restart %d '
        'of %d; see %s', ', '.join(
            f'{program.name} {program.how_it_ended()}' for program in dead),
        number, self._max_restarts, dead[0].log_path)
