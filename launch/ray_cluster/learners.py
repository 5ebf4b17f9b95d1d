"""The learners of a run on a Ray cluster, mostly one: all run, or none.

Several have to know where the others are, so none is started before all are
placed. Where one of them dies all start again from the last checkpoint, as
under `launch.processes.supervisor`. What ends of several ends because of one of
them; a learner that is alone and fails by itself would fail again.
"""

import logging
import pathlib
import time
from typing import List, Optional

from impala_tf import config as config_lib
from impala_tf.processes import waiting
from impala_tf.storage import files
from launch.processes import restarts
from launch.ray_cluster import connection as ray_connection
from launch.ray_cluster import program as ray_program

State = ray_program.State

_log = logging.getLogger('cluster')


def role_arguments(name: str, address: str, wait_secs: float, *flags: str
                   ) -> List[str]:
  """What follows `python -m` for a role that plays or learns at `address`."""
  return ['launch.role', name, '--supervised', f'--address={address}',
          f'--wait_secs={wait_secs:g}', *flags]


def needed_paths(run_dir: str) -> List[str]:
  """Paths that a node must have to write into a run's directory."""
  return [] if files.is_url(run_dir) else [run_dir]


class RayLearners:
  """Where they are and how they are.

  Attributes:
    programs: of each, the chief's first.
    addresses: of their Reverb servers; as of the last start.
    num_starts: of all together.
  """

  def __init__(self, config: config_lib.Config, run_dir: str,
               log_dir: pathlib.Path, port: Optional[int],
               needs: ray_connection.Resources, wait_secs: float):
    """Starts nothing yet.

    Args:
      config: of the run.
      run_dir: of the run, an absolute path or a URL.
      log_dir: gets what each says.
      port: of the first one's Reverb server, and one more for each of the
        others; None for free ones.
      needs: what Ray reserves for each.
      wait_secs: for room at most, and of roles for each other.
    """
    self.programs = [
        ray_program.RayProgram(
            f'learner_{i}' if i else 'learner', log_dir, needs)
        for i in range(config.learner.num_learners)]
    self.addresses: List[str] = []
    self.num_starts = 0
    self._run_dir = run_dir
    self._port = port
    self._wait_secs = wait_secs
    self._restarts = restarts.JointRestarts(
        config.actor.max_restarts, config.actor.restart_window_secs)
    self._noticed: Optional[float] = None  # When the first had died.
    self._waiting = self._wait_for_room()

  def _wait_for_room(self) -> waiting.Waiting:
    number = len(self.programs)
    wait = waiting.Waiting(
        f'nodes with room for {number} learners' if number > 1 else
        'a node with room for the learner', self._wait_secs, _log.info)
    wait.restart()  # Says nothing at first.
    return wait

  @property
  def are_running(self) -> bool:
    """All of them."""
    return all(own.state is State.RUNNING for own in self.programs)

  def are_done(self) -> bool:
    """Whether all have ended well.

    Raises:
      RunFailed, UserError: where the only one has ended by itself otherwise.
    """
    codes = [own.exit_code for own in self.programs]
    # A signal came from outside, such as from a kernel without memory.
    if len(codes) == 1 and codes[0] is not None and 0 < codes[0] <= 128:
      self.programs[0].check()
    return all(code == 0 for code in codes)

  def have_died(self) -> bool:
    """Whether one has, and all are to be placed anew; True once each time.

    Raises:
      RunFailed, UserError: see `restarts.JointRestarts.note_deaths`.
    """
    dead = [own for own in self.programs
            if own.state is State.LOST or own.exit_code]
    if not dead:
      return False
    now = time.monotonic()
    if self._noticed is None:
      self._noticed = now
    if now - self._noticed < restarts.LAST_WORDS_SECS and any(
        own.state is State.RUNNING for own in self.programs):
      return False
    self._noticed = None
    self._restarts.note_deaths(dead, now)
    return True

  def place_anew(self) -> None:
    """Ends those that still run; all are to start again."""
    for own in self.programs:
      if own.state is State.RUNNING:
        own.withdraw()
      own.place()
    self._waiting = self._wait_for_room()

  def tend(self) -> None:
    """Brings them nearer to running.

    Raises:
      PeerMissing: where there was no room in time.
    """
    for own in self.programs:
      if own.state is State.ABSENT:
        own.place()
    if any(own.state is State.PLACING for own in self.programs):
      self._waiting.poll()
    elif all(own.state is State.PLACED for own in self.programs):
      self._start()

  def _start(self) -> None:
    """Starts all, unless their nodes have yet to name other free ports."""
    places = [own.report for own in self.programs]
    own_addresses = [
        f'{place.ip}:{self._port + i if self._port else place.free_ports[0]}'
        for i, place in enumerate(places)]
    joint = [f'{place.ip}:{place.free_ports[1]}' for place in places]
    if len({*own_addresses, *joint}) < 2 * len(places):
      return  # Two looked at the same time on one node.
    together = [f'--learners={",".join(joint)}'] * (len(places) > 1)
    for i, own in enumerate(self.programs):
      own.start(role_arguments(
          'learner', own_addresses[i], self._wait_secs, f'--task={i}',
          *together, f'--run_dir={self._run_dir}'), {},
                needed_paths(self._run_dir))
      _log.info('%s started on %s, at %s', own.name, own.place_name,
                own_addresses[i])
    self.addresses = own_addresses
    self.num_starts += 1
