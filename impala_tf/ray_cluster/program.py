"""A program on some node of a Ray cluster.

Ray finds a node with room for it, and another if the node is lost. There it
places a `host.Host`, an actor in Ray's sense, which starts the program as its
child and reports on it. Nothing here waits for a node's answer.
"""

import contextlib
import logging
import os
import pathlib
from typing import Any, Mapping, NamedTuple, Sequence

import ray
from ray import cloudpickle
from ray import exceptions

from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.ray_cluster import host as ray_host
from impala_tf.runtime import batch
from impala_tf.runtime import child
from impala_tf.runtime import local
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import waiting

State = program_lib.State

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_SILENCE_SECS = 60.  # Ray does not notice a process that was stopped.
_BATCH_POLL_SECS = 0.5
_MOST_OF_CAUSE = 200  # Characters; Ray's explanations are pages.
# Prefixes of variables that programs get from this process, beside Ray's.
_HANDED_ON = ('IMPALA_TF_', 'MUJOCO_', 'PYTHONSAFEPATH', 'TF_')

_log = logging.getLogger('cluster')

cloudpickle.register_pickle_by_value(ray_host)


class Report(NamedTuple):
  """A host process's report about its node and the program it runs."""
  host: str  # Differs after Ray has restarted it.
  ip: str  # Of its node.
  node: str  # Ray's name for it.
  free_ports: Sequence[int]  # Two that were free a moment ago.
  exit_code: int | None  # None while the program runs, or before its start.
  output: bytes  # Of the program since the last report.
  missing: str = ''  # Path that the node lacks: the program was not started.


class RayProgram(program_lib.Program):
  """A program on a node, with its log file on this machine."""

  def __init__(self, name: str, log_dir: pathlib.Path,
               needs: ray_connection.Resources,
               environment: Mapping[str, str] | None = None,
               needed: Sequence[str] = (), silence_secs: float = _SILENCE_SECS):
    """Prepares the program; its node must have the `needed` paths.

    A node that does not answer for `silence_secs` is given up.
    """
    super().__init__(name, log_dir)
    self.report: Report  # The last one, once the program has been placed.
    self._needs = needs
    self._variables = environment or {}
    self._needed = needed
    self._silence = waiting.Waiting(
        'an answer', silence_secs, lambda line: None)
    self._host: Any = None
    self._answer: Any = None  # That is awaited, if any.
    self._cause = ''

  @property
  def place_name(self) -> str:
    """Name of the program's current or last node."""
    return f'{self.report.ip} (node {self.report.node[:8]})'

  def how_it_ended(self) -> str:
    if self.state is State.LOST:
      return f'was lost: {self._cause}'
    return super().how_it_ended()

  def place(self) -> None:
    """Requests a node, unless the program can restart on its last one."""
    if self._host is None:
      # Ray restarts it without limit; callers count its deaths.
      self._host = ray.remote(ray_host.Host).options(
          num_cpus=self._needs.cpus, num_gpus=self._needs.gpus,
          max_restarts=-1, scheduling_strategy='SPREAD').remote(str(_ROOT))
      self._answer = None
    self.exit_code = None
    self.state = (State.PLACED if self.state is State.ENDED else State.PLACING)

  def start(self, command: Sequence[str]) -> None:
    assert self.state is State.PLACED
    _log.info('%s started on %s', self.name, self.place_name)
    self._append(f'started on {self.place_name}\n'.encode())
    self._log_start = self.log_path.stat().st_size
    handed_on = {name: value for name, value in os.environ.items()
                 if name.startswith(_HANDED_ON)}
    paths = [str(_ROOT), *filter(None, [os.environ.get('PYTHONPATH')])]
    self._answer = self._host.start.remote(
        os.getcwd(), list(command), {
            **self._variables, **local.MALLOC, **handed_on,
            # Ray hides none from a program that asks for none.
            **({} if self._needs.gpus else {'CUDA_VISIBLE_DEVICES': ''}),
            'PYTHONPATH': os.pathsep.join(paths)}, list(self._needed))
    self.state = State.RUNNING

  def send(self, signum: int) -> None:
    if self.state is State.RUNNING:
      self._host.send.remote(signum)

  def collect(self) -> None:
    """Updates `state` and log from an answer of the host, which it requests."""
    if self._host is None:
      return
    if self._answer is None:
      self._answer = self._host.tell.remote()
    ready, _ = ray.wait([self._answer], timeout=0)
    if not ready:
      self._note_silence()
      return
    self._silence.restart()
    self._answer = None
    try:
      report = Report(**ray.get(ready[0]))
    except exceptions.ActorUnavailableError as error:
      self._lose(str(error))  # Ray looks for another place by itself.
    except exceptions.RayActorError as error:
      self._host = None
      self._lose(str(error), is_for_good=True)
    else:
      self._note_report(report)

  def _note_silence(self):
    if self.state in (State.ABSENT, State.PLACING):
      self._silence.restart()  # It has not been asked yet: Ray looks for room.
      return
    try:
      self._silence.poll()
    except waiting.PeerMissing as error:
      ray.kill(self._host)
      self._host = None
      self._lose(f'{self.place_name}: {error}')

  def _lose(self, cause: str, is_for_good: bool = False):
    self.exit_code = None
    if self.state is State.RUNNING or is_for_good:
      self.state = State.LOST
      self._cause = ' '.join(cause.split())[:_MOST_OF_CAUSE]
    elif self.state in (State.PLACED, State.ENDED):
      self.state = State.PLACING

  def _note_report(self, report: Report):
    self._append(report.output)
    if self.state is State.RUNNING and report.host != self.report.host:
      self._lose(f'Ray restarted the host process on {self.place_name}')
      return
    self.report = report
    if self.state is State.PLACING:
      self.state = State.PLACED
    elif self.state is State.RUNNING:
      if report.missing:
        self._append(
            f'{child.COMPLAINT}{report.ip} has no {report.missing}; the '
            'project and files of --import must be at the same path on all '
            'nodes, and the run directory on a file system that they share\n'
            .encode())
      self.exit_code = child.BAD_INPUT if report.missing else report.exit_code
      if self.exit_code is not None:
        self.state = State.ENDED

  def _append(self, output: bytes):
    # Without room for its output a program goes on, as on one machine.
    with contextlib.suppress(OSError), self.log_path.open('ab') as log:
      log.write(output)

  def withdraw(self) -> None:
    if self._host is not None:
      ray.kill(self._host)
    self._host = self._answer = None
    self._silence.restart()
    self.exit_code = None
    self.state = State.ABSENT


def make_batch(num_jobs: int, log_dir: str, environment: Mapping[str, str],
               needs: ray_connection.Resources, needed: Sequence[str],
               wait_secs: float) -> batch.Batch:
  """Makes a batch of programs on a cluster, killed if this process dies.

  Each program writes to a local file, `log_dir`/NAME.log, and needs resources
  and paths (`needed`) on its node. `run` raises PeerMissing after `wait_secs`
  without room for any of the programs.
  """
  room = waiting.Waiting(
      'room on the cluster', wait_secs, lambda line: print(line, flush=True))
  room.restart()  # Says nothing at first.
  return batch.Batch(
      num_jobs, lambda name: RayProgram(
          name, pathlib.Path(log_dir), needs, environment, needed),
      _BATCH_POLL_SECS, room)
