"""One training run on a Ray cluster.

Learners are placed first, and actors and evaluator once all learners run, if
there is room. Nodes report free ports before learners start, because learners
must know each other's addresses.
"""

import logging
import pathlib
from typing import Sequence

from impala_tf import config as config_lib
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.ray_cluster import plan as cluster_plan
from impala_tf.ray_cluster import program as ray_program
from impala_tf.runs import run_directory
from impala_tf.runtime import role_commands
from impala_tf.runtime import sizing
from impala_tf.runtime import supervisor
from impala_tf.runtime import user_modules
from impala_tf.runtime import waiting
from impala_tf.storage import files

_POLL_SECS = 0.5

_log = logging.getLogger('cluster')


def needed_paths(run_dir: str) -> list[str]:
  """Returns the paths that a node must have for a role with a run directory."""
  return [*([] if files.is_url(run_dir) else [run_dir]), *user_modules.paths()]


class RayLearners(supervisor.LearnerPrograms):
  """Learners on nodes of a cluster, at ports that are free there."""

  programs: Sequence[ray_program.RayProgram]
  # A signal may come from a kernel without memory; the next node may have it.
  survives_signals = True

  def __init__(self, config: config_lib.Config, run_dir: str,
               log_dir: pathlib.Path, port: int | None,
               needs: ray_connection.Resources, wait_secs: float,
               sharing_flags: Sequence[str] = ()):
    """Prepares the learners; `make_supervisor` explains the arguments."""
    number = config.learner.num_learners
    room = waiting.Waiting(
        f'nodes with room for {number} learners' if number > 1 else
        'a node with room for the learner', wait_secs, _log.info)
    room.restart()  # Says nothing at first.
    super().__init__(
        number, lambda name: ray_program.RayProgram(
            name, log_dir, needs, needed=needed_paths(run_dir)),
        config.actor.max_restarts, config.actor.restart_window_secs,
        self._addressed, room=room)
    # HOST:PORT of each one's Reverb server, as of the last start.
    self.addresses: list[str] = []
    self._flags = [f'--wait_secs={wait_secs:g}', f'--run_dir={run_dir}',
                   *sharing_flags]
    self._port = port

  def _addressed(self) -> Sequence[Sequence[str]]:
    """Returns a command for each learner; none if two have the same address."""
    places = [program.report for program in self.programs]
    addresses = [
        f'{place.ip}:{self._port + i if self._port else place.free_ports[0]}'
        for i, place in enumerate(places)]
    joint = [f'{place.ip}:{place.free_ports[1]}' for place in places]
    if len({*addresses, *joint}) < 2 * len(places):
      return []  # Two looked at the same time on one node.
    self.addresses = addresses
    for program, address in zip(self.programs, addresses):
      _log.info('%s is at %s', program.name, address)
    return [role_commands.learner(address, task, joint, *self._flags)
            for task, address in enumerate(addresses)]


def make_supervisor(config: config_lib.Config, run_dir: str,
                    log_dir: pathlib.Path, port: int | None,
                    needs: cluster_plan.Needs, wait_secs: float,
                    sharing_flags: Sequence[str] = ()) -> supervisor.Supervisor:
  """Makes the supervisor of a run on the cluster.

  `config` has a number of actors, and `run_dir`, an absolute path or a URL, is
  claimed. `port` is that of the first learner's Reverb server, None for free
  ones; `wait_secs` is the longest wait for learners' room, and of roles for
  each other; `sharing_flags` are those of an agent that shares a replay.
  """
  learners = RayLearners(config, run_dir, log_dir, port, needs.learner,
                         wait_secs, sharing_flags)
  wait_flag = f'--wait_secs={wait_secs:g}'
  num_updates = run_directory.newest_checkpoint(run_dir) or 0

  def make_program(name):
    if name == supervisor.EVALUATOR:
      return ray_program.RayProgram(name, log_dir, needs.evaluator,
                                    needed=needed_paths(run_dir))
    # Without a run directory, which actors' nodes need not see.
    return ray_program.RayProgram(
        name, log_dir, needs.actor, needed=user_modules.paths())

  def actor(task, attempt):
    addresses = learners.addresses
    return role_commands.actor(
        addresses[task % len(addresses)], task, attempt, wait_flag,
        *sharing_flags, num_updates=num_updates)

  def evaluator(attempt):
    return role_commands.command(
        'evaluator', learners.addresses[0], f'--seed={attempt}', wait_flag,
        f'--run_dir={run_dir}')

  return supervisor.Supervisor(
      learners, make_program, actor, sizing.fitted(config.actor.num_actors),
      evaluator if needs.evaluator is not None else None, _POLL_SECS)
