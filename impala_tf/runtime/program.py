"""The interface of a program that runs on this machine or on another.

Standard library and `impala_tf.config` only.
"""

import enum
import pathlib
import signal
import time
from typing import List, Optional, Sequence

from impala_tf import config as config_lib
from impala_tf.runtime import child
from impala_tf.runtime import stop_signals

_LOG_TAIL_LINES = 12
_STOP_POLL_SECS = 0.05


class RunFailed(RuntimeError):
  """The run cannot go on; the message holds the culprit's last words."""


class State(enum.Enum):
  """Stages of a program: each leads to the next line, to LOST or to ABSENT."""
  ABSENT = enum.auto()
  PLACING = enum.auto()  # The host looks for room.
  PLACED = enum.auto()  # There is room, and the program can be started.
  RUNNING = enum.auto()
  ENDED = enum.auto()  # By itself, or by a signal.
  LOST = enum.auto()  # With the machine it ran on.


class Program:
  """A program that is placed, started, watched and ended, with its log file.

  No method waits until the program does something by itself. Subclasses run it
  on a host: this machine, or a node of a cluster.

  Attributes:
    name: name of the program, for messages; may have slashes.
    log_path: file on this machine that receives the program's output.
    state: stage as of the last method call; only `collect` notices an end.
  """

  def __init__(self, name: str, log_dir: pathlib.Path):
    """Makes the directory of the log, and starts nothing yet.

    Args:
      name: name of the program.
      log_dir: directory of the log file, which is called `NAME.log`.
    """
    self.name = name
    self.log_path = log_dir / f'{name}.log'
    self.log_path.parent.mkdir(parents=True, exist_ok=True)
    self.state = State.ABSENT
    self._log_start = 0  # Bytes; earlier ones are from earlier starts.

  @property
  def exit_code(self) -> Optional[int]:
    """Exit code of the last start, negative for a signal; None if unknown."""
    raise NotImplementedError

  def place(self) -> None:
    """Finds room for the program, unless it has a place already."""
    raise NotImplementedError

  def start(self, command: Sequence[str]) -> None:
    """Starts the program in its place.

    Args:
      command: module and arguments, which follow `python -m`.
    """
    raise NotImplementedError

  def send(self, signum: int) -> None:
    """Sends the program a signal if it still runs."""
    raise NotImplementedError

  def collect(self) -> None:
    """Updates `state` and the log; is to be called again and again."""
    raise NotImplementedError

  def withdraw(self) -> None:
    """Kills the program if it still runs, and gives back its place."""
    raise NotImplementedError

  def _log_lines(self) -> List[str]:
    text = self.log_path.read_bytes()[self._log_start:]
    return text.decode('utf-8', errors='replace').splitlines()

  def last_words(self) -> str:
    """Returns the last lines of the log."""
    return '\n'.join(self._log_lines()[-_LOG_TAIL_LINES:])

  def complaint(self) -> str:
    """Returns the line in which the program told what is wrong."""
    # Anywhere in the log: libraries may have written much after it.
    found = [line for line in self._log_lines()
             if line.startswith(child.COMPLAINT)]
    if not found:
      return f'see {self.log_path}'
    return found[-1][len(child.COMPLAINT):]

  def how_it_ended(self) -> str:
    """Returns the cause of the end, in words that follow the name."""
    code = self.exit_code
    if code is not None and code < 0:
      return f'was killed by {signal.Signals(-code).name}'
    return f'ended with exit code {code}'

  def check(self) -> None:
    """Raises an error unless the program has ended with success.

    Raises:
      UserError: where the program said that its input cannot work.
      RunFailed: where it ended in any other way.
    """
    if self.exit_code == child.BAD_INPUT:
      raise config_lib.UserError(self.complaint())
    if self.exit_code != 0:
      raise RunFailed(
          f'the {self.name} {self.how_it_ended()}; the end of '
          f'{self.log_path}:\n{self.last_words()}')


def wait_for_end(programs: Sequence[Program], deadline: float,
                 signals: stop_signals.StopSignals) -> None:
  """Waits for programs that were asked to stop.

  Args:
    programs: the programs.
    deadline: time by the monotonic clock at which the wait is over.
    signals: a second signal ends the wait, too.
  """
  while (time.monotonic() < deadline and not signals.are_repeated and
         any(program.state is State.RUNNING for program in programs)):
    time.sleep(_STOP_POLL_SECS)
    for program in programs:
      program.collect()
