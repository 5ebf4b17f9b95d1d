"""One training run on a Ray cluster: its programs are kept alive together.

Learners are placed first, and the others once they run, where there is room.
When a learner is lost all others are given back before it is placed again: the
cluster may be full of them, and they would have to look for it anew anyway.
"""

import collections
import logging
import math
import pathlib
import signal
import time
from typing import Callable, List, Optional, Sequence

from impala_tf import config as config_lib
from launch.processes import restarts
from launch.ray_cluster import learners as ray_learners
from launch.ray_cluster import plan as cluster_plan
from launch.ray_cluster import program as ray_program
from launch.run import program

State = ray_program.State

_POLL_SECS = 0.5
_STATUS_SECS = 30.
_STOP_SECS = 8.  # Ctrl-C promises to end within 10.

_log = logging.getLogger('cluster')


class _Peer:
  """An actor or evaluator, started again where it was, or elsewhere."""

  def __init__(self, own: ray_program.RayProgram,
               arguments: Callable[[int], Sequence[str]],
               restart: restarts.Restarts, needed: Sequence[str] = ()):
    """Starts nothing yet.

    Args:
      own: its program.
      arguments: from how often it was started before to its arguments.
      restart: of the program.
      needed: paths that its node must have.
    """
    self.program = own
    self.num_starts = 0
    self._arguments = arguments
    self._restarts = restart
    self._needed = needed
    self._due = 0.

  def tend(self) -> None:
    """Brings it nearer to running.

    Raises:
      RunFailed, UserError: see `restarts.Restarts.note_death`.
    """
    own, now = self.program, time.monotonic()
    if own.state in (State.ENDED, State.LOST):
      self._due = self._restarts.note_death(now)
      if math.isinf(self._due):
        own.withdraw()
      else:
        own.place()
    elif own.state is State.ABSENT and not math.isinf(self._due):
      own.place()
    elif own.state is State.PLACED and now >= self._due:
      own.start(self._arguments(self.num_starts), {}, self._needed)
      self.num_starts += 1
      _log.info('%s started on %s', own.name, own.place_name)


class ClusterRun:
  """Learners, mostly one, their actors, and perhaps an evaluator."""

  def __init__(self, config: config_lib.Config, run_dir: str,
               log_dir: pathlib.Path, port: Optional[int],
               needs: cluster_plan.Needs, wait_secs: float):
    """Starts nothing yet.

    Args:
      config: of the run, with a number for `ActorConfig.num_actors`.
      run_dir: of the run, an absolute path or a URL; claimed.
      log_dir: gets what each program says.
      port: of the Reverb server, and of several learners the first of as many;
        None for free ones.
      needs: of the programs; no evaluator is started where it has none.
      wait_secs: for room for the learners at most, and of roles for each other.
    """
    self._run_dir = run_dir
    self._wait_secs = wait_secs
    self._learners = ray_learners.RayLearners(
        config, run_dir, log_dir, port, needs.learner, wait_secs)

    def peer(name, needs, arguments, needed=(), is_needed=True):
      own = ray_program.RayProgram(name, log_dir, needs)
      return _Peer(own, arguments, restarts.Restarts(
          own, config.actor.max_restarts, config.actor.restart_window_secs,
          is_needed), needed)

    def actor(task):
      return peer(f'actor_{task}', needs.actor,
                  lambda attempt: self._actor_arguments(task, attempt))

    self._actors = [actor(task) for task in range(config.actor.num_actors)]
    self._peers = list(self._actors)
    if needs.evaluator is not None:
      self._peers.append(peer(
          'evaluator', needs.evaluator, self._evaluator_arguments,
          ray_learners.needed_paths(run_dir), is_needed=False))
    self._next_status = time.monotonic() + _STATUS_SECS
    self._signals: List[int] = []

  def run(self, on_poll: Callable[[], None]) -> Optional[int]:
    """Runs until all is learned or a signal comes.

    Args:
      on_poll: is called about twice a second.

    Returns:
      None if the learners ended well, else the signal (SIGINT, SIGTERM) that
      ended the run.

    Raises:
      RunFailed: where the only learner ended of itself, or an actor or one of
        several learners too often.
      UserError: where a program says that its input cannot work.
      PeerMissing: where there was no room for the learners in time.
    """
    handlers = {s: signal.signal(s, lambda s, frame: self._signals.append(s))
                for s in program.STOP_SIGNALS}
    try:
      while not self._signals:
        for own in self._programs():
          own.collect()
        if self._learners.are_done():
          return None
        self._tend()
        self._say_status()
        on_poll()
        time.sleep(_POLL_SECS)
      self._stop()
      return self._signals[0]
    finally:
      for own in self._programs():
        own.withdraw()
      for signum, handler in handlers.items():
        signal.signal(signum, handler)
      on_poll()

  def _programs(self) -> List[ray_program.RayProgram]:
    return [*self._learners.programs, *(peer.program for peer in self._peers)]

  def _tend(self) -> None:
    if self._learners.have_died():
      for peer in self._peers:
        peer.program.withdraw()
      self._learners.place_anew()
    self._learners.tend()
    if self._learners.are_running:
      for peer in self._peers:
        peer.tend()

  # Without a run directory, which actors' nodes need not see.
  def _actor_arguments(self, task: int, attempt: int) -> List[str]:
    addresses = self._learners.addresses
    return ray_learners.role_arguments(
        'actor', addresses[task % len(addresses)], self._wait_secs,
        f'--task={task}', f'--seed={task + attempt * 10_000}')

  def _evaluator_arguments(self, attempt: int) -> List[str]:
    return ray_learners.role_arguments(
        'evaluator', self._learners.addresses[0], self._wait_secs,
        f'--run_dir={self._run_dir}', f'--seed={attempt}')

  def _say_status(self) -> None:
    now = time.monotonic()
    if now < self._next_status:
      return
    self._next_status = now + _STATUS_SECS
    _log.info(self.status())

  def status(self) -> str:
    """One line: what runs where, and how often it was started anew."""
    learners = self._learners
    if not learners.are_running:
      return ('not all learners run' if len(learners.programs) > 1
              else 'the learner does not run')
    where = ', '.join(
        f'{own.name} on {own.place_name} at {address}'
        for own, address in zip(learners.programs, learners.addresses))
    places = collections.Counter(
        peer.program.place_name for peer in self._actors
        if peer.program.state is State.RUNNING)
    of_actors = ', '.join(f'{number} on {place}'
                          for place, number in sorted(places.items()))
    number = sum(max(starts - 1, 0) for starts in (
        learners.num_starts, *(peer.num_starts for peer in self._peers)))
    return (f'{where}; {sum(places.values())} of {len(self._actors)} actors '
            f'run ({of_actors or "none has room yet"}); {number} restarts')

  def _stop(self) -> None:
    """Others have nothing to save; the learners write a checkpoint."""
    learners = self._learners.programs
    for own in learners:
      own.send(signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECS
    while time.monotonic() < deadline and any(
        own.state is State.RUNNING for own in learners):
      if len(self._signals) > 1:  # Asked twice: at once, then.
        break
      time.sleep(0.05)
      for own in learners:
        own.collect()
    for own in learners:
      self._check_stopped(own)

  def _check_stopped(self, learner: ray_program.RayProgram) -> None:
    """Raises RunFailed where it could not save."""
    resumes = 'the run resumes from its last checkpoint'
    if learner.state is State.RUNNING:
      raise restarts.RunFailed(
          f'the {learner.name} did not stop in time and is killed; {resumes}')
    if learner.state is State.LOST:
      raise restarts.RunFailed(
          f'the {learner.name} {learner.how_it_ended()}; {resumes}')
    # It handles SIGTERM from its start-up on; before, there is nothing to save.
    if learner.state is State.ENDED and learner.exit_code not in (
        -signal.SIGTERM, 128 + signal.SIGTERM):
      learner.check()
