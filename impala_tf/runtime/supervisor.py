"""The loop that keeps a run's programs alive, and ends them together.

The programs may run on this machine or on others: the loop knows of them what
`program.Program` says. Standard library only.
"""

import math
import signal
import time
from typing import Callable, List, Optional, Sequence

from impala_tf.runtime import program as program_lib
from impala_tf.runtime import restarts
from impala_tf.runtime import stop_signals

State = program_lib.State

_STOP_SECS = 8.  # Ctrl-C promises to end within 10.


class Learners:
  """The learners of a run, mostly one: all of them run, or none.

  Several learners may have to know where the others are, so none is started
  before all are placed. Where one of them dies, all start again from the last
  checkpoint.

  Attributes:
    programs: program of each learner, the chief's first.
    num_starts: how often all were started together.
  """

  def __init__(self, number: int,
               make_program: Callable[[str], program_lib.Program],
               restart: restarts.JointRestarts):
    """Starts nothing yet.

    Args:
      number: how many learners there are.
      make_program: makes a learner's program of its name.
      restart: restart policy of all together.
    """
    self.programs = [make_program(f'learner_{i}' if i else 'learner')
                     for i in range(number)]
    self.num_starts = 0
    self._restarts = restart
    self._noticed: Optional[float] = None  # When the first death was seen.

  def _commands(self) -> Sequence[Sequence[str]]:
    """Returns a command for each learner, now that all are placed.

    An empty sequence postpones the start to the next call.
    """
    raise NotImplementedError

  def _wait_for_room(self) -> None:
    """Is called again and again while learners have no place; may raise."""

  def _is_final(self, exit_code: int) -> bool:
    """Returns whether a failure of the only learner ends the run."""
    return exit_code != 0

  @property
  def are_running(self) -> bool:
    """True while all learners run."""
    return all(program.state is State.RUNNING for program in self.programs)

  def are_done(self) -> bool:
    """Returns whether all learners have ended with success.

    Raises:
      RunFailed, UserError: where the only learner has failed for good.
    """
    codes = [program.exit_code for program in self.programs]
    if len(codes) == 1 and codes[0] is not None and self._is_final(codes[0]):
      self.programs[0].check()
    return all(code == 0 for code in codes)

  def have_died(self) -> bool:
    """Returns whether a learner has died and all are to be placed anew.

    Says so once for each such event, when the other learners have ended too or
    have had time to.

    Raises:
      RunFailed, UserError: see `restarts.JointRestarts.note_deaths`.
    """
    dead = [program for program in self.programs
            if program.state is State.LOST or program.exit_code]
    if not dead:
      return False
    now = time.monotonic()
    if self._noticed is None:
      self._noticed = now
    if now - self._noticed < restarts.LAST_WORDS_SECS and any(
        program.state is State.RUNNING for program in self.programs):
      return False
    self._noticed = None
    self._restarts.note_deaths(dead, now)
    return True

  def place_anew(self) -> None:
    """Ends the learners that still run, and finds a place for all."""
    for program in self.programs:
      if program.state is State.RUNNING:
        program.withdraw()
      program.place()

  def tend(self) -> None:
    """Places learners that have no place, or starts all once they have one."""
    for program in self.programs:
      if program.state is State.ABSENT:
        program.place()
    if any(program.state is State.PLACING for program in self.programs):
      self._wait_for_room()
    elif all(program.state is State.PLACED for program in self.programs):
      commands = self._commands()
      for program, command in zip(self.programs, commands):
        program.start(command)
      if commands:
        self.num_starts += 1


class Peer:
  """An actor or evaluator, which starts again where it was, or elsewhere.

  Attributes:
    program: program of the peer.
    num_starts: how often it was started.
  """

  def __init__(self, program: program_lib.Program,
               command: Callable[[int], Sequence[str]],
               restart: restarts.Restarts):
    """Starts nothing yet.

    Args:
      program: program of the peer.
      command: makes a command of the number of earlier starts.
      restart: restart policy of the program.
    """
    self.program = program
    self.num_starts = 0
    self._command = command
    self._restarts = restart
    self._due = 0.  # When the next start may be.

  def tend(self) -> None:
    """Places or starts the program if it does not run.

    Raises:
      RunFailed, UserError: see `restarts.Restarts.note_death`.
    """
    program, now = self.program, time.monotonic()
    if program.state in (State.ENDED, State.LOST):
      self._due = self._restarts.note_death(now)
      if math.isinf(self._due):
        program.withdraw()
      else:
        program.place()
    elif program.state is State.ABSENT and not math.isinf(self._due):
      program.place()
    if program.state is State.PLACED and now >= self._due:
      self._start()

  def _start(self) -> None:
    self.program.start(self._command(self.num_starts))
    self.num_starts += 1


class Supervisor:
  """Keeps learners and their peers alive until the learners are done."""

  def __init__(self, learners: Learners, peers: Sequence[Peer],
               poll_secs: float):
    """Starts nothing yet.

    Args:
      learners: all learners of the run.
      peers: actors, and perhaps an evaluator; they run while all learners do.
      poll_secs: time between two looks at the programs.
    """
    self._learners = learners
    self._peers = peers
    self._poll_secs = poll_secs

  def run(self, on_poll: Callable[[], None]) -> Optional[int]:
    """Runs until the learners end or a signal comes.

    Args:
      on_poll: function called after each look at the programs, and at the end.

    Returns:
      None if the learners ended well, else the signal (SIGINT, SIGTERM) that
      ended the run.

    Raises:
      RunFailed: where the only learner died for good, or an actor or one of
        several learners too often.
      UserError: where a program says that its input cannot work.
      PeerMissing: where there was no room for the learners in time.
    """
    with stop_signals.StopSignals() as signals:
      try:
        while signals.first is None:
          for program in self._programs():
            program.collect()
          if self._learners.are_done():
            return None
          self._tend()
          on_poll()
          time.sleep(self._poll_secs)
        self._stop(signals)
        return signals.first
      finally:
        for program in self._programs():
          program.withdraw()
        on_poll()

  def _programs(self) -> List[program_lib.Program]:
    return [*self._learners.programs, *(peer.program for peer in self._peers)]

  def _tend(self) -> None:
    """Starts what does not run and may."""
    if self._learners.have_died():
      # Peers give back their places: where there is room for few programs, the
      # learners need it first.
      for peer in self._peers:
        peer.program.withdraw()
      self._learners.place_anew()
    self._learners.tend()
    if self._learners.are_running:
      for peer in self._peers:
        peer.tend()

  def _stop(self, signals: stop_signals.StopSignals) -> None:
    """Asks all to stop, and waits for the learners to write a checkpoint."""
    for program in self._programs():
      program.send(signal.SIGTERM)
    learners = self._learners.programs
    program_lib.wait_for_end(
        learners, time.monotonic() + _STOP_SECS, signals)
    when = 'in time' if signals.are_repeated else f'within {_STOP_SECS:.0f} s'
    for learner in learners:
      _check_stopped(learner, when)


def _check_stopped(learner: program_lib.Program, when: str) -> None:
  """Raises RunFailed where a learner that was to stop could not save."""
  resumes = 'the run resumes from its last checkpoint, if it has one'
  if learner.state is State.RUNNING:
    raise program_lib.RunFailed(
        f'the {learner.name} did not stop {when} and is killed; {resumes}')
  if learner.state is State.LOST:
    raise program_lib.RunFailed(
        f'the {learner.name} {learner.how_it_ended()}; {resumes}')
  # It handles SIGTERM from its start-up on; before, there is nothing to save.
  if learner.state is State.ENDED and learner.exit_code not in (
      -signal.SIGTERM, 128 + signal.SIGTERM):
    learner.check()
