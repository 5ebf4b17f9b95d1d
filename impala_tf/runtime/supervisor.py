"""The loop that keeps a run's programs alive, and stops them together."""

import functools
import math
import signal
import time
from typing import Callable, Sequence

from impala_tf.runtime import child
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import restarts
from impala_tf.runtime import stop_signals
from impala_tf.runtime import waiting

State = program_lib.State

EVALUATOR = 'evaluator'  # Name of the program.
_STOP_SECS = 8.  # Ctrl-C promises to end within 10.


class LearnerPrograms:
  """The learners of a run, mostly one: all of them run, or none.

  They may need each other's addresses, so none starts before all are placed.
  If one dies, all start again from the last checkpoint. The first is the chief.
  """
  survives_signals = False  # Whether a single learner starts again, too.

  def __init__(self, number: int,
               make_program: Callable[[str], program_lib.Program],
               max_restarts: int, restart_window_secs: float,
               commands: Callable[[], Sequence[Sequence[str]]],
               is_done: Callable[[], bool] | None = None,
               room: waiting.Waiting | None = None):
    """Prepares the learners.

    `commands` makes one for each placed learner, or none to try again later;
    `is_done` asks a learner outside of them; `room` is polled while learners
    have no place.
    """
    self.programs: Sequence[program_lib.Program] = [
        make_program(f'learner_{i}' if i else 'learner')
        for i in range(number)]
    self.limits = max_restarts, restart_window_secs
    self._restarts = restarts.JointRestarts(*self.limits)
    self._commands = commands
    self._is_done = is_done
    self._room = room
    self._noticed: float | None = None  # When the first death was seen.

  @property
  def are_running(self) -> bool:
    return all(program.state is State.RUNNING for program in self.programs)

  def are_done(self) -> bool:
    """Returns whether all learners are done; raises if the only one failed."""
    if self._is_done is not None:
      return self._is_done()
    codes = [program.exit_code for program in self.programs]
    if len(codes) == 1 and codes[0] is not None and (
        0 <= codes[0] <= 128 or not self.survives_signals):
      self.programs[0].check()
    return all(code == child.DONE for code in codes)

  def have_died(self) -> bool:
    """Returns whether a learner has died and all must be placed again.

    Returns True once for each death, when the other learners have ended too or
    have had time to. Raises as `restarts.JointRestarts.note_deaths` does.
    """
    dead = [program for program in self.programs
            if program.state is State.LOST or
            program.exit_code not in (None, child.DONE)]
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
    """Kills the learners that still run, and requests places for all."""
    for program in self.programs:
      if program.state is State.RUNNING:
        program.withdraw()
      program.place()
    if self._room is not None:
      self._room.restart()

  def tend(self) -> None:
    """Requests missing places of learners; starts them once all are placed."""
    for program in self.programs:
      if program.state is State.ABSENT:
        program.place()
    if any(program.state is State.PLACING for program in self.programs):
      if self._room is not None:
        self._room.poll()
    elif all(program.state is State.PLACED for program in self.programs):
      for program, command in zip(self.programs, self._commands()):
        program.start(command)


class Peer:
  """A program, such as an actor, that restarts in its place or elsewhere."""

  def __init__(self, program: program_lib.Program,
               command: Callable[[int], Sequence[str]],
               deaths: restarts.Restarts,
               losses: restarts.Restarts | None = None):
    """Prepares the peer; `command` gets the number of earlier starts.

    `losses` counts losses of the program, if `deaths` is not to.
    """
    self.program = program
    self._num_starts = 0
    self._command = command
    self._deaths = deaths
    self._losses = losses or deaths
    self._due = 0.  # When the next start may be.

  def tend(self) -> None:
    """Places or starts the program; raises as `Restarts.note_death` does."""
    program, now = self.program, time.monotonic()
    if program.state in (State.ENDED, State.LOST):
      is_lost = program.state is State.LOST
      self._due = (self._losses if is_lost else self._deaths).note_death(now)
      if math.isinf(self._due):
        program.withdraw()
      else:
        program.place()
    elif program.state is State.ABSENT and not math.isinf(self._due):
      program.place()
    if program.state is State.PLACED and now >= self._due:
      program.start(self._command(self._num_starts))
      self._num_starts += 1


class Supervisor:
  """Keeps learners and their peers alive until the learners are done."""

  def __init__(self, learners: LearnerPrograms,
               make_program: Callable[[str], program_lib.Program],
               actor_command: Callable[[int, int], Sequence[str]],
               num_actors: int,
               evaluator_command: Callable[[int], Sequence[str]] | None,
               poll_secs: float):
    """Prepares the learners' peers: the actors and the evaluator.

    `actor_command` gets task and number of earlier starts, `evaluator_command`
    only the latter. Each peer may restart as often as the learners together.
    """

    def make_peer(name, command, is_needed=True, first_words=''):
      program = make_program(name)
      return Peer(program, command, restarts.Restarts(
          program, *learners.limits, is_needed, first_words))

    self._learners = learners
    self._poll_secs = poll_secs
    self._peers = [
        make_peer(f'actor_{task}', functools.partial(actor_command, task),
                  first_words=child.FIRST) for task in range(num_actors)]
    if evaluator_command is not None:
      self._peers.append(
          make_peer(EVALUATOR, evaluator_command, is_needed=False))

  def run(self, on_poll: Callable[[], None]) -> int | None:
    """Runs until learners are done (None) or a signal comes (its number).

    `on_poll` is called after each poll of the programs, and at the end. Raises
    UserError for bad input, PeerMissing if there was no room for learners in
    time, and RunFailed for any other end.
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
        if signals.first is None:
          self._ask_to_end([peer.program for peer in self._peers], signals)
        for program in self._programs():
          program.withdraw()
        on_poll()

  def _programs(self) -> list[program_lib.Program]:
    return [*self._learners.programs, *(peer.program for peer in self._peers)]

  def _tend(self) -> None:
    if self._learners.have_died():
      # Peers give up their places: if room is scarce, learners need it first.
      for peer in self._peers:
        peer.program.withdraw()
      self._learners.place_anew()
    self._learners.tend()
    if self._learners.are_running:
      for peer in self._peers:
        peer.tend()

  def _ask_to_end(self, programs: Sequence[program_lib.Program],
                  signals: stop_signals.StopSignals) -> None:
    """Sends SIGTERM; waits while programs save or close environments."""
    for program in programs:
      program.send(signal.SIGTERM)
    program_lib.wait_for_end(programs, time.monotonic() + _STOP_SECS, signals)

  def _stop(self, signals: stop_signals.StopSignals) -> None:
    """Asks all programs to stop; RunFailed if a learner could not save."""
    self._ask_to_end(self._programs(), signals)
    when = 'in time' if signals.are_repeated else f'within {_STOP_SECS:.0f} s'
    for learner in self._learners.programs:
      how = (learner.how_it_ended() if learner.state is not State.RUNNING
             else f'did not stop {when} and is killed')
      if learner.state in (State.RUNNING, State.LOST):
        raise program_lib.RunFailed(
            f'the {learner.name} {how}; the run resumes from its last '
            'checkpoint, if it has one')
      # It handles SIGTERM from its start-up on; before, nothing is to be saved.
      if learner.state is State.ENDED and learner.exit_code not in (
          -signal.SIGTERM, 128 + signal.SIGTERM):
        learner.check()
