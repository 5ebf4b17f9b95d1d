"""One training run on a Ray cluster.

Learners are placed first, and their peers once all learners run, where there is
room.
"""

import collections
import functools
import logging
import pathlib
import time
from typing import List, Optional, Sequence

from impala_tf import config as config_lib
from impala_tf.ray_cluster import learners as ray_learners
from impala_tf.ray_cluster import plan as cluster_plan
from impala_tf.ray_cluster import program as ray_program
from impala_tf.runs import run_directory
from impala_tf.runtime import plurals
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import restarts
from impala_tf.runtime import role_commands
from impala_tf.runtime import supervisor
from impala_tf.runtime import user_modules

_POLL_SECS = 0.5
_STATUS_SECS = 30.

_log = logging.getLogger('cluster')


class _RayPeer(supervisor.Peer):
  """An actor or evaluator on some node."""

  def _start(self) -> None:
    super()._start()
    _log.info('%s started on %s', self.program.name, self.program.place_name)


class ClusterRun(supervisor.Supervisor):
  """Learners, mostly one, their actors, and perhaps an evaluator."""

  def __init__(self, config: config_lib.Config, run_dir: str,
               log_dir: pathlib.Path, port: Optional[int],
               needs: cluster_plan.Needs, wait_secs: float,
               sharing_flags: Sequence[str] = ()):
    """Starts nothing yet.

    Args:
      config: config of the run, with a number for `ActorConfig.num_actors`.
      run_dir: directory of the run, an absolute path or a URL; claimed.
      log_dir: directory that gets a log file for each program.
      port: port of the Reverb server, and the first of as many where there are
        several learners; None for free ports.
      needs: what Ray reserves for each program; there is an evaluator where it
        says what for one.
      wait_secs: longest wait for room for the learners, and of roles for each
        other.
      sharing_flags: flags of learners and actors of an agent that shares a
        replay, which was started elsewhere.
    """
    self._run_dir = run_dir
    self._wait_flag = f'--wait_secs={wait_secs:g}'
    self._sharing_flags = sharing_flags
    self._num_updates = run_directory.newest_checkpoint(run_dir) or 0
    self._actors = []
    for task in range(config.actor.num_actors):
      # Without a run directory, which actors' nodes need not see.
      program = ray_program.RayProgram(
          f'actor_{task}', log_dir, needs.actor,
          needed=user_modules.paths())
      self._actors.append(_RayPeer(
          program, functools.partial(self._actor_command, task),
          restarts.Restarts(program, config.actor.max_restarts,
                            config.actor.restart_window_secs)))
    peers = list(self._actors)
    if needs.evaluator is not None:
      program = ray_program.RayProgram(
          'evaluator', log_dir, needs.evaluator,
          needed=ray_learners.needed_paths(run_dir))
      peers.append(_RayPeer(
          program, self._evaluator_command,
          restarts.Restarts(program, config.actor.max_restarts,
                            config.actor.restart_window_secs,
                            is_needed=False)))
    super().__init__(
        ray_learners.RayLearners(
            config, run_dir, log_dir, port, needs.learner, wait_secs,
            sharing_flags),
        peers, _POLL_SECS)
    self._next_status = time.monotonic() + _STATUS_SECS

  def _actor_command(self, task: int, attempt: int) -> List[str]:
    addresses = self._learners.addresses
    return role_commands.actor(
        addresses[task % len(addresses)], task, attempt, self._wait_flag,
        *self._sharing_flags, num_updates=self._num_updates)

  def _evaluator_command(self, attempt: int) -> Sequence[str]:
    return role_commands.evaluator(
        self._learners.addresses[0], attempt, self._wait_flag,
        f'--run_dir={self._run_dir}')

  def _tend(self) -> None:
    super()._tend()
    now = time.monotonic()
    if now >= self._next_status:
      self._next_status = now + _STATUS_SECS
      _log.info(self.status())

  def status(self) -> str:
    """Returns a line that says what runs where, and how often it restarted."""
    learners = self._learners
    if not learners.are_running:
      if len(learners.programs) > 1:
        return 'not all learners run'
      return 'the learner does not run'
    where = ', '.join(
        f'{program.name} on {program.place_name} at {address}'
        for program, address in zip(learners.programs, learners.addresses))
    places = collections.Counter(
        actor.program.place_name for actor in self._actors
        if actor.program.state is program_lib.State.RUNNING)
    actors_by_place = ', '.join(f'{number} on {place}'
                                for place, number in sorted(places.items()))
    num_restarts = sum(max(starts - 1, 0) for starts in (
        learners.num_starts, *(peer.num_starts for peer in self._peers)))
    return (f'{where}; {sum(places.values())} of {len(self._actors)} actors '
            f'run ({actors_by_place or "none has room yet"}); '
            f'{plurals.counted(num_restarts, "restart")}')
