"""Keeps a run's processes alive, and ends them together.

Children are programs of their own (nothing is forked, Atari's emulator would
hang). Each gets a pipe as standard input that this process never writes to:
when the supervisor goes away, however it dies, children read its end and stop.
Standard library only.
"""

import functools
import os
import pathlib
import signal
import subprocess
import time
from typing import Callable, Dict, List, Optional, Sequence

from launch.processes import restarts

_POLL_SECS = 0.2
_STOP_SECS = 8.  # Ctrl-C promises to end within 10.
# glibc hands large blocks back to the kernel at once and takes the next with a
# page fault for every 4 KiB: half of what sending parameters costs. These keep
# blocks of up to 32 MiB; other C libraries ignore them.
MALLOC = {'MALLOC_MMAP_THRESHOLD_': str(32 * 2**20),
           'MALLOC_TRIM_THRESHOLD_': str(2**30)}

# From how often it was started before, to a program and its arguments.
Command = Callable[[int], Sequence[str]]


def child_environment() -> Dict[str, str]:
  """Environment variables of learners and actors."""
  return {**MALLOC, **os.environ}


class Child(restarts.Program):
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


class _Slot:
  """A child that is restarted when it dies."""

  def __init__(self, child: Child, command: Command,
               restart: restarts.Restarts):
    self.child = child
    self.command = command
    self.restarts = restart
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
    self._learner_restarts = restarts.JointRestarts(
        max_restarts, restart_window_secs)

    def slot(name, command, is_needed=True):
      child = Child(name, directory)
      return _Slot(child, command, restarts.Restarts(
          child, max_restarts, restart_window_secs, is_needed))

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
    self._wait_for_learners(restarts.LAST_WORDS_SECS)
    self._learner_restarts.note_deaths(
        [child for child in self._learners
         if not child.is_running and child.exit_code], time.monotonic())
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
        slot.due = slot.restarts.note_death(now)
      elif slot.due is not None and now >= slot.due:
        slot.child.start(slot.command(slot.attempts))
        slot.attempts += 1
        slot.due = None

  def _stop(self):
    """Actors have nothing to save; the learners write a checkpoint."""
    for child in self._children():
      child.send(signal.SIGTERM)
    self._wait_for_learners(_STOP_SECS)
    if any(child.is_running for child in self._learners):
      raise restarts.RunFailed(
          f'the learner did not stop within {_STOP_SECS:.0f} s and is killed; '
          'the run resumes from its last checkpoint')
    for learner in self._learners:
      # It handles SIGTERM from its start-up on; before, there is nothing to
      # save.
      if learner.exit_code not in (-signal.SIGTERM, 128 + signal.SIGTERM):
        learner.check()
