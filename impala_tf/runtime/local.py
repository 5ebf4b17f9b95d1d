"""Programs as child processes on this machine.

They are started, never forked: Atari's emulator would hang.
"""

import os
import pathlib
import subprocess
import sys
from typing import Mapping, Sequence
import uuid

from impala_tf.runtime import batch
from impala_tf.runtime import leftovers
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import restarts
from impala_tf.runtime import supervisor

State = program_lib.State

_BATCH_POLL_SECS = 0.1
_MAX_SERVER_RESTARTS = 20
_SERVER_WINDOW_SECS = 600.
# glibc hands large blocks back to the kernel at once and takes the next with a
# page fault for every 4 KiB: half of what sending parameters costs. These keep
# blocks of up to 32 MiB. By default each thread has its own arena, in which
# batches that another thread gives back leave holes. With two arenas a loop
# that reads batches grows half as much. Other C libraries ignore all three.
MALLOC = {'MALLOC_ARENA_MAX': '2',
          'MALLOC_MMAP_THRESHOLD_': str(32 * 2**20),
          'MALLOC_TRIM_THRESHOLD_': str(2**30)}
# Launcher of a command, which is a module and its arguments.
PYTHON_MODULE = (sys.executable, '-m')


class LocalProgram(program_lib.Program):
  """A program in a child process; it never waits for room and is never lost.

  Its standard input is a pipe that ends with this process, so that it can stop
  (`child.stop_with_parent`). It has a separate session, so Ctrl-C does not
  reach it. Whatever it has started is killed once it has ended.
  """

  def __init__(self, name: str, log_dir: pathlib.Path,
               launcher: Sequence[str] = PYTHON_MODULE,
               environment: Mapping[str, str] | None = None,
               keep_open: Sequence[int] = ()):
    """Prepares the program, which inherits the file descriptors `keep_open`.

    Variables of this process take precedence over `environment`.
    """
    super().__init__(name, log_dir)
    self._launcher = launcher
    self._environment = environment or {}
    self._keep_open = keep_open
    self._mark = uuid.uuid4().hex
    self._process: subprocess.Popen | None = None

  def place(self) -> None:
    self.withdraw()
    self.exit_code = None
    self.state = State.PLACED

  def start(self, command: Sequence[str]) -> None:
    self.log_path.parent.mkdir(parents=True, exist_ok=True)  # If deleted.
    with open(self.log_path, 'ab') as log:
      self._log_start = log.tell()
      self._process = subprocess.Popen(
          [*self._launcher, *command], stdin=subprocess.PIPE, stdout=log,
          stderr=log, start_new_session=True, pass_fds=self._keep_open,
          env={**self._environment, **MALLOC, **os.environ,
               leftovers.VARIABLE: leftovers.added_to_own(self._mark)})
    self.state = State.RUNNING

  def send(self, signum: int) -> None:
    if self._process is not None:
      self._process.send_signal(signum)

  def collect(self) -> None:
    if self._process is not None and self.state is State.RUNNING:
      self.exit_code = self._process.poll()
      if self.exit_code is not None:
        leftovers.kill(self._mark)
        self.state = State.ENDED

  def withdraw(self) -> None:
    if self._process is not None:
      self._process.kill()
      self.exit_code = self._process.wait()
      leftovers.kill(self._mark)
      assert self._process.stdin is not None  # `start` made it a pipe.
      self._process.stdin.close()
      self._process = None
    self.state = State.ABSENT


def make_batch(num_jobs: int, log_dir: str, environment: Mapping[str, str],
               keep_open: int) -> batch.Batch:
  """Makes a batch on this machine; programs get SIGTERM if this process dies.

  They inherit the file `keep_open`, so that its lock lasts as long as they do.
  See `LocalProgram` for the other arguments.
  """
  return batch.Batch(num_jobs, lambda name: LocalProgram(
      name, pathlib.Path(log_dir), _bound_launcher(), environment, [keep_open]),
                     _BATCH_POLL_SECS)


def make_server(name: str, command: Sequence[str], log_dir: str,
                keep_open: int) -> supervisor.Peer:
  """Makes a server for a `batch.Group`; for `keep_open` see `make_batch`."""
  program = LocalProgram(
      name, pathlib.Path(log_dir), _bound_launcher(), keep_open=[keep_open])
  return supervisor.Peer(
      program, lambda num_starts: command, restarts.Restarts(
          program, _MAX_SERVER_RESTARTS, _SERVER_WINDOW_SECS))


def _bound_launcher() -> Sequence[str]:
  """Returns the launcher of programs that get SIGTERM if this process dies."""
  return (*PYTHON_MODULE, 'impala_tf.runtime.bound_to_parent',
          str(os.getpid()), 'SIGTERM')
