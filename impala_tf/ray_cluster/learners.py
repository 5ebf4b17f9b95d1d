"""The learners of a run on a Ray cluster.

Nodes have to name free ports before the learners can be told of each other, and
room for the learners is not waited for forever.
"""

import logging
import pathlib
from typing import List, Optional, Sequence

from impala_tf import config as config_lib
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.ray_cluster import program as ray_program
from impala_tf.runtime import restarts
from impala_tf.runtime import role_commands
from impala_tf.runtime import supervisor
from impala_tf.runtime import user_modules
from impala_tf.runtime import waiting
from impala_tf.storage import files

_log = logging.getLogger('cluster')


def needed_paths(run_dir: str) -> List[str]:
  """Returns paths that a node must have for a role that writes to the run."""
  if files.is_url(run_dir):
    return user_modules.paths()
  return [run_dir, *user_modules.paths()]


class RayLearners(supervisor.Learners):
  """Learners on nodes of a cluster, which listen where their nodes have room.

  Attributes:
    addresses: HOST:PORT of each one's Reverb server, as of the last start.
  """

  def __init__(self, config: config_lib.Config, run_dir: str,
               log_dir: pathlib.Path, port: Optional[int],
               needs: ray_connection.Resources, wait_secs: float,
               sharing_flags: Sequence[str] = ()):
    """Starts nothing yet.

    Args:
      config: config of the run.
      run_dir: directory of the run, an absolute path or a URL.
      log_dir: directory that gets a log file for each learner.
      port: port of the first one's Reverb server, and the first of as many
        where there are several learners; None for free ports.
      needs: what Ray reserves for each learner.
      wait_secs: longest wait for room, and of roles for each other.
      sharing_flags: flags of an agent that shares a replay.
    """
    number = config.learner.num_learners
    super().__init__(
        number, lambda name: ray_program.RayProgram(
            name, log_dir, needs, needed=needed_paths(run_dir)),
        restarts.JointRestarts(config.actor.max_restarts,
                               config.actor.restart_window_secs))
    self.addresses: List[str] = []
    self._flags = [f'--wait_secs={wait_secs:g}', f'--run_dir={run_dir}',
                   *sharing_flags]
    self._port = port
    self._waiting = waiting.Waiting(
        f'nodes with room for {number} learners' if number > 1 else
        'a node with room for the learner', wait_secs, _log.info)
    self._waiting.restart()  # Says nothing at first.

  def place_anew(self) -> None:
    super().place_anew()
    self._waiting.restart()

  def _wait_for_room(self) -> None:
    """Raises PeerMissing where there was no room in time."""
    self._waiting.poll()

  def _is_final(self, exit_code: int) -> bool:
    # A signal came from outside, such as from a kernel without memory, and the
    # next node may have more.
    return 0 < exit_code <= 128

  def _commands(self) -> Sequence[Sequence[str]]:
    """Returns a command for each learner, or none until ports differ."""
    places = [program.report for program in self.programs]
    addresses = [
        f'{place.ip}:{self._port + i if self._port else place.free_ports[0]}'
        for i, place in enumerate(places)]
    joint = [f'{place.ip}:{place.free_ports[1]}' for place in places]
    if len({*addresses, *joint}) < 2 * len(places):
      return []  # Two looked at the same time on one node.
    self.addresses = addresses
    for program, address in zip(self.programs, addresses):
      _log.info('%s started on %s, at %s', program.name, program.place_name,
                address)
    return [role_commands.learner(address, task, joint, *self._flags)
            for task, address in enumerate(addresses)]
