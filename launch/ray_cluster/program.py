"""A program on some node of a Ray cluster.

Ray finds a node with room for it, and another where that one is lost. What it
places is a `host.Host`, an actor in Ray's sense, that starts the program as
its child and tells of it when asked. Nothing here waits: what a node has to say
is taken when it has come.
"""

import enum
import os
import pathlib
import time
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import ray
from ray import cloudpickle
from ray import exceptions

from launch.processes import restarts
from launch.processes import supervisor
from launch.ray_cluster import connection as ray_connection
from launch.ray_cluster import host as ray_host

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Ray finds out by itself when a node or a process is gone, but not when a
# process has stopped.
_SILENCE_SECS = 60.
# Calls of `collect` are a fraction of a second apart; where two are further
# apart, this process was stopped, and not the other.
_MAX_POLL_SECS = 2.
_MOST_OF_CAUSE = 200  # Characters; Ray's explanations are pages.
# Variables that programs have from here, beside those that Ray gives them.
_HANDED_ON = ('IMPALA_TF_', 'MUJOCO_', 'PYTHONSAFEPATH', 'TF_')

cloudpickle.register_pickle_by_value(ray_host)


class Report(NamedTuple):
  """What a host tells.

  Attributes:
    host: tells one from the other.
    ip: of its node.
    node: Ray's name for it.
    free_ports: two of its node: nothing listened there a moment ago.
    exit_code: of the program; None while it runs, or before it was started.
    output: of the program since the last report.
  """
  host: str
  ip: str
  node: str
  free_ports: Sequence[int]
  exit_code: Optional[int]
  output: bytes


class State(enum.Enum):
  """Of a program: the next is one of the lines below, or ABSENT."""
  ABSENT = enum.auto()
  PLACING = enum.auto()  # Ray looks for room.
  PLACED = enum.auto()  # It can be started.
  RUNNING = enum.auto()
  ENDED = enum.auto()  # By itself, or by a signal.
  LOST = enum.auto()  # With its node, or with what Ray runs there.


def _environment() -> Mapping[str, str]:
  handed_on = {name: value for name, value in os.environ.items()
               if name.startswith(_HANDED_ON)}
  paths = [str(_ROOT), *filter(None, [os.environ.get('PYTHONPATH')])]
  return {**supervisor.MALLOC, **handed_on,
          'PYTHONPATH': os.pathsep.join(paths)}


class RayProgram(restarts.Program):
  """A program with its log file, which is here wherever the program runs.

  Attributes:
    state: see `State`; as of the last call of `collect`.
    report: the last one of the host it has; None while it has none.
  """

  def __init__(self, name: str, log_dir: pathlib.Path,
               needs: ray_connection.Resources):
    """Starts nothing yet.

    Args:
      name: may have slashes.
      log_dir: has its log.
      needs: what Ray reserves for it.
    """
    super().__init__(name, log_dir)
    self.log_path.parent.mkdir(parents=True, exist_ok=True)
    self.state = State.ABSENT
    self.report: Optional[Report] = None
    self._needs = needs
    self._host: Any = None
    self._answer: Any = None  # That is awaited.
    self._silent_secs = 0.
    self._last_poll = time.monotonic()
    self._cause = ''

  @property
  def exit_code(self) -> Optional[int]:
    """None unless it has ended."""
    return self.report.exit_code if self.state is State.ENDED else None

  @property
  def place_name(self) -> str:
    """Where it is or was, in words."""
    return f'{self.report.ip} (node {self.report.node[:8]})'

  def how_it_ended(self) -> str:
    """In words."""
    if self.state is State.LOST:
      return f'was lost: {self._cause}'
    return super().how_it_ended()

  def place(self) -> None:
    """Has Ray find a node for it, unless it has one that it can start on."""
    if self._host is None:
      # Ray restarts it without limit; how often is too often is not its
      # business but that of the callers.
      self._host = ray.remote(ray_host.Host).options(
          num_cpus=self._needs.cpus, num_gpus=self._needs.gpus,
          max_restarts=-1, scheduling_strategy='SPREAD').remote(str(_ROOT))
      self._answer = None
    self.state = (
        State.PLACED if self.state is State.ENDED else State.PLACING)

  def start(self, arguments: Sequence[str], environment: Mapping[str, str],
            needed: Sequence[str]) -> None:
    """Starts the program where it was placed.

    Args:
      arguments: what follows `python -m`.
      environment: variables beside those that all programs get.
      needed: paths that its node must have.
    """
    assert self.state is State.PLACED
    self._append(f'started on {self.place_name}\n'.encode())
    self._log_start = self.log_path.stat().st_size
    self._answer = self._host.start.remote(
        os.getcwd(), list(arguments), {**environment, **_environment()},
        list(needed))
    self.state = State.RUNNING

  def send(self, signum: int) -> None:
    """Sends it a signal if it still runs."""
    if self.state is State.RUNNING:
      self._host.send.remote(signum)

  def collect(self) -> None:
    """Takes what has come from its node, and asks for more.

    To be called again and again. Changes `state` when it is placed, has ended
    or is lost.
    """
    if self._host is None:
      return
    secs = min(time.monotonic() - self._last_poll, _MAX_POLL_SECS)
    self._last_poll = time.monotonic()
    if self._answer is None:
      self._answer = self._host.tell.remote()
    ready, _ = ray.wait([self._answer], timeout=0)
    if not ready:
      self._note_silence(secs)
      return
    self._silent_secs = 0.
    self._answer = None
    try:
      report = Report(**ray.get(ready[0]))
    except exceptions.ActorUnavailableError as error:
      self._lose(str(error))  # Ray looks for another place by itself.
    except exceptions.RayActorError as error:
      self._host = None
      self._lose(str(error), is_for_good=True)
    else:
      self._take(report)

  def _note_silence(self, secs: float):
    if self.state in (State.ABSENT, State.PLACING):
      return  # It has not been asked yet: Ray looks for room.
    self._silent_secs += secs
    if self._silent_secs > _SILENCE_SECS:
      ray.kill(self._host)
      self._host = None
      self._lose(f'{self.place_name} has not answered for '
                 f'{_SILENCE_SECS:.0f} s')

  def _lose(self, cause: str, is_for_good: bool = False):
    if self.state is State.RUNNING or is_for_good:
      self.state = State.LOST
      self._cause = ' '.join(cause.split())[:_MOST_OF_CAUSE]
    elif self.state in (State.PLACED, State.ENDED):
      self.state = State.PLACING

  def _take(self, report: Report):
    self._append(report.output)
    if self.state is State.RUNNING and report.host != self.report.host:
      self._lose(f'Ray has started anew what it ran on {self.place_name}')
      return
    self.report = report
    if self.state is State.PLACING:
      self.state = State.PLACED
    elif self.state is State.RUNNING and report.exit_code is not None:
      self.state = State.ENDED

  def _append(self, output: bytes):
    with self.log_path.open('ab') as log:
      log.write(output)

  def withdraw(self) -> None:
    """Kills it, and gives back its place."""
    if self._host is not None:
      ray.kill(self._host)
    self._host = self._answer = None
    self._silent_secs = 0.
    self.state = State.ABSENT
