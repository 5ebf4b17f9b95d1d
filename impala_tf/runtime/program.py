"""The interface of a program on this machine or another."""

import enum
import pathlib
import signal
import time
from typing import Sequence

from impala_tf import config as config_lib
from impala_tf.runtime import child
from impala_tf.runtime import stop_signals

_LOG_TAIL_LINES = 12
_STOP_POLL_SECS = 0.05


class RunFailed(RuntimeError):
  """Error of a run that cannot go on, with the last output of the culprit."""


class State(enum.Enum):
  """Stages of a program; each leads to the next, to LOST or to ABSENT."""
  ABSENT = enum.auto()
  PLACING = enum.auto()  # The host looks for room.
  PLACED = enum.auto()  # There is room, and the program can be started.
  RUNNING = enum.auto()
  ENDED = enum.auto()  # By itself, or by a signal.
  LOST = enum.auto()  # With the machine it ran on.


class Program:
  """A program with a log file, on this machine or on a node of a cluster.

  No method waits for the program; only `collect` notices its end, in `state`.
  """

  def __init__(self, name: str, log_dir: pathlib.Path):
    """Makes the directory of the log file, `log_dir`/NAME.log."""
    self.name = name
    self.log_path = log_dir / f'{name}.log'
    self.log_path.parent.mkdir(parents=True, exist_ok=True)
    self.state = State.ABSENT
    # Of the last start, negative for a signal; None if unknown.
    self.exit_code: int | None = None
    self._log_start = 0  # Bytes; earlier ones are from earlier starts.

  def place(self) -> None:
    """Requests room for the program, unless it has a place already."""
    raise NotImplementedError

  def start(self, command: Sequence[str]) -> None:
    """Starts `command` (module and arguments) in the program's place."""
    raise NotImplementedError

  def send(self, signum: int) -> None:
    """Sends the program a signal if it is running."""
    raise NotImplementedError

  def collect(self) -> None:
    """Updates `state` and the log; must be called repeatedly."""
    raise NotImplementedError

  def withdraw(self) -> None:
    """Kills the program if it is running, and gives up its place."""
    raise NotImplementedError

  def _log_lines(self) -> list[str]:
    text = b''
    if self.log_path.exists():  # Users may tidy up.
      text = self.log_path.read_bytes()[self._log_start:]
    return text.decode('utf-8', errors='replace').splitlines()

  def has_said(self, words: str) -> bool:
    """Returns whether the log of the last start has these words."""
    return words in '\n'.join(self._log_lines())

  def complaint(self) -> str:
    """Returns the line in which the program reported bad input, if any."""
    # Anywhere in the log: libraries may have written after it.
    return next((line[len(child.COMPLAINT):]
                 for line in reversed(self._log_lines())
                 if line.startswith(child.COMPLAINT)), '')

  def reason(self) -> str:
    """Returns the program's reason for its end, if any, and its log's path."""
    return '; '.join(filter(None, [self.complaint(), f'see {self.log_path}']))

  def last_words(self) -> str:
    """Returns the reason of the program's end, or the end of its log."""
    if self.complaint():
      return self.reason()
    return '\n'.join([f'the end of {self.log_path}:',
                      *self._log_lines()[-_LOG_TAIL_LINES:]])

  def how_it_ended(self) -> str:
    """Describes the program's end, as in 'was killed by SIGKILL'."""
    code = self.exit_code
    if code is not None and code < 0:
      return f'was killed by {signal.Signals(-code).name}'
    if code == 0:
      return 'ended with exit code 0 before it was done'
    return f'ended with exit code {code}'

  def check(self) -> None:
    """Raises UserError for bad input, RunFailed unless the program is done."""
    if self.exit_code == child.BAD_INPUT:
      raise config_lib.UserError(self.complaint() or self.reason())
    if self.exit_code != child.DONE:
      raise RunFailed(
          f'the {self.name} {self.how_it_ended()}: {self.last_words()}')


def wait_for_end(programs: Sequence[Program], deadline: float,
                 signals: stop_signals.StopSignals) -> None:
  """Waits for programs to stop, a monotonic deadline or a second signal."""
  while (time.monotonic() < deadline and not signals.are_repeated and
         any(program.state is State.RUNNING for program in programs)):
    time.sleep(_STOP_POLL_SECS)
    for program in programs:
      program.collect()
