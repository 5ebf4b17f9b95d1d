"""One training run on a Ray cluster: its programs are kept alive together.

The learner is placed first, and actors once it runs, where there is room. When
it is lost all actors are given back before it is placed again: the cluster may
be full of them, and they would have to look for it anew anyway.
"""

import collections
import logging
import pathlib
import signal
import time
from typing import Callable, List, Optional, Sequence

from impala_tf import config as config_lib
from impala_tf import files
from impala_tf import supervisor
from impala_tf import waiting
from launch import program
from launch import ray_connection
from launch import ray_program

State = ray_program.State

_POLL_SECS = 0.5
_STATUS_SECS = 30.
_STOP_SECS = 8.  # Ctrl-C promises to end within 10.

_log = logging.getLogger('cluster')


class _Role:
  """A program that is started again where it was, or elsewhere."""

  def __init__(self, own: ray_program.RayProgram,
               config: config_lib.ActorConfig):
    self.program = own
    self.num_starts = 0
    self._restarts = supervisor.Restarts(
        own, config.max_restarts, config.restart_window_secs)
    self._due = 0.

  def tend(self, arguments: Callable[[int], Sequence[str]],
           needed: Sequence[str] = ()) -> None:
    """Brings it nearer to running.

    Args:
      arguments: from how often it was started before to its arguments.
      needed: paths that its node must have.

    Raises:
      RunFailed, UserError: see `supervisor.Restarts.note_death`.
    """
    own, now = self.program, time.monotonic()
    if own.state in (State.ENDED, State.LOST):
      self._due = self._restarts.note_death(now)
      own.place()
    elif own.state is State.ABSENT:
      own.place()
    elif own.state is State.PLACED and now >= self._due:
      own.start(arguments(self.num_starts), {}, needed)
      self.num_starts += 1
      _log.info('%s started on %s', own.name, own.place_name)


class ClusterRun:
  """A learner and its actors."""

  def __init__(self, config: config_lib.Config, run_dir: str,
               log_dir: pathlib.Path, port: Optional[int],
               learner_needs: ray_connection.Resources,
               actor_needs: ray_connection.Resources, wait_secs: float):
    """Starts nothing yet.

    Args:
      config: of the run, with a number for `ActorConfig.num_actors`.
      run_dir: of the run, an absolute path or a URL; claimed.
      log_dir: gets what each program says.
      port: of the Reverb server; None for a free one.
      learner_needs: what Ray reserves for it.
      actor_needs: likewise for each.
      wait_secs: for room for the learner at most, and of roles for each other.
    """
    self._run_dir = run_dir
    self._port = port
    self._wait_secs = wait_secs
    self._address = ''

    def role(name, needs):
      return _Role(ray_program.RayProgram(name, log_dir, needs), config.actor)

    self._learner = role('learner', learner_needs)
    self._actors = [role(f'actor_{i}', actor_needs)
                    for i in range(config.actor.num_actors)]
    self._waiting = self._wait_for_room()
    self._next_status = time.monotonic() + _STATUS_SECS
    self._signals: List[int] = []

  def _wait_for_room(self) -> waiting.Waiting:
    wait = waiting.Waiting('a node with room for the learner', self._wait_secs,
                           _log.info)
    wait.restart()  # Says nothing at first.
    return wait

  def run(self, on_poll: Callable[[], None]) -> Optional[int]:
    """Runs until all is learned or a signal comes.

    Args:
      on_poll: is called about twice a second.

    Returns:
      None if the learner ended well, else the signal (SIGINT, SIGTERM) that
      ended the run.

    Raises:
      RunFailed: where the learner ended of itself, or a program too often.
      UserError: where a program says that its input cannot work.
      PeerMissing: where there was no room for the learner in time.
    """
    handlers = {s: signal.signal(s, lambda s, frame: self._signals.append(s))
                for s in program.STOP_SIGNALS}
    try:
      while not self._signals:
        for role in self._roles():
          role.program.collect()
        if self._is_done():
          return None
        self._tend()
        self._say_status()
        on_poll()
        time.sleep(_POLL_SECS)
      self._stop()
      return self._signals[0]
    finally:
      for role in self._roles():
        role.program.withdraw()
      for signum, handler in handlers.items():
        signal.signal(signum, handler)
      on_poll()

  def _roles(self) -> List[_Role]:
    return [self._learner, *self._actors]

  def _is_done(self) -> bool:
    """Whether the learner has ended well; raises where it cannot go on."""
    learner = self._learner.program
    code = learner.exit_code
    # A signal came from outside, such as from a kernel without memory.
    if code is None or code < 0 or code > 128:
      return False
    learner.check()
    return True

  def _tend(self) -> None:
    learner = self._learner.program
    if learner.state in (State.ENDED, State.LOST):
      for role in self._actors:
        role.program.withdraw()
      self._waiting = self._wait_for_room()
    if learner.state is State.PLACING:
      self._waiting.poll()
    self._learner.tend(
        self._learner_arguments,
        [] if files.is_url(self._run_dir) else [self._run_dir])
    if learner.state is State.RUNNING:
      for task, role in enumerate(self._actors):
        role.tend(lambda attempt, task=task: self._actor_arguments(
            task, attempt))

  def _role_arguments(self, name: str, *flags: str) -> List[str]:
    return ['launch.role', name, '--supervised', f'--address={self._address}',
            f'--wait_secs={self._wait_secs:g}', *flags]

  def _learner_arguments(self, unused_attempt: int) -> List[str]:
    place = self._learner.program.report
    self._address = f'{place.ip}:{self._port or place.free_port}'
    return self._role_arguments('learner', f'--run_dir={self._run_dir}')

  def _actor_arguments(self, task: int, attempt: int) -> List[str]:
    # Without a run directory, which their nodes need not see.
    return self._role_arguments('actor', f'--task={task}',
                                f'--seed={task + attempt * 10_000}')

  def _say_status(self) -> None:
    now = time.monotonic()
    if now < self._next_status:
      return
    self._next_status = now + _STATUS_SECS
    _log.info(self.status())

  def status(self) -> str:
    """One line: what runs where, and how often it was started anew."""
    learner = self._learner.program
    if learner.state is not State.RUNNING:
      return 'the learner does not run'
    places = collections.Counter(
        role.program.place_name for role in self._actors
        if role.program.state is State.RUNNING)
    where = ', '.join(f'{number} on {place}'
                      for place, number in sorted(places.items()))
    restarts = sum(max(role.num_starts - 1, 0) for role in self._roles())
    return (f'learner on {learner.place_name} at {self._address}; '
            f'{sum(places.values())} of {len(self._actors)} actors run '
            f'({where or "none has room yet"}); {restarts} restarts')

  def _stop(self) -> None:
    """Actors have nothing to save; the learner writes a checkpoint."""
    learner = self._learner.program
    learner.send(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECS
    while learner.state is State.RUNNING and time.monotonic() < deadline:
      if len(self._signals) > 1:  # Asked twice: at once, then.
        break
      time.sleep(0.05)
      learner.collect()
    resumes = 'the run resumes from its last checkpoint'
    if learner.state is State.RUNNING:
      raise supervisor.RunFailed(
          f'the learner did not stop in time and is killed; {resumes}')
    if learner.state is State.LOST:
      raise supervisor.RunFailed(
          f'the learner {learner.how_it_ended()}; {resumes}')
    # It handles SIGTERM from its start-up on; before, there is nothing to save.
    if learner.state is State.ENDED and learner.exit_code not in (
        -signal.SIGTERM, 128 + signal.SIGTERM):
      learner.check()
