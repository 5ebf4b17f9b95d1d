"""The flag --track: a process beside training that sends rows to a service.

The process is `impala_tf.cli.wandb_tracker`. It reads the files that training
writes, so no failure of the service, the network or the process can harm a run.
It starts before the run enters its private network, which has no way out.
"""

import contextlib
import os
import signal
import sys
from typing import Iterator

import psutil

from impala_tf.runs import run_directory
from impala_tf.runtime import user_modules

# Holds the tracker's process id and the file descriptor of its standard input,
# through the execution of this program within another network.
_TRACKER = 'IMPALA_TF_TRACKER'
_FINISH_SECS = 30.  # For the last rows, once training has ended.
LOG_NAME = 'tracker.log'


def start(track: bool) -> None:
  """Starts the tracker, which waits for the run's directory.

  It does nothing without --track, or if this program was executed anew since
  the tracker started. Raises UserError if the package is not installed.
  """
  if not track or _TRACKER in os.environ:
    return
  user_modules.check_installed('wandb', 'wandb', '--track')
  read, stdin = os.pipe()
  # Not by `subprocess`, which would collect the exit status unseen.
  pid = os.posix_spawn(
      sys.executable,
      [sys.executable, '-m', 'impala_tf.cli.wandb_tracker'], os.environ,
      file_actions=[(os.POSIX_SPAWN_DUP2, read, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, 1, 2)], setsid=True)
  os.close(read)
  os.set_inheritable(stdin, True)
  os.environ[_TRACKER] = f'{pid} {stdin}'


@contextlib.contextmanager
def tracking(track: bool, run_dir: str,
             finish_secs: float = _FINISH_SECS) -> Iterator[None]:
  """Makes a context in which the tracker sends a run's rows.

  At the end it has `finish_secs` for unsent rows.
  """
  if not track:
    yield
    return
  pid, stdin = map(int, os.environ.pop(_TRACKER).split())
  os.set_inheritable(stdin, False)
  log = os.path.join(run_directory.logs_path(run_dir), LOG_NAME)
  print(f'  tracked with Weights & Biases, see {log}', flush=True)
  with contextlib.suppress(BrokenPipeError):  # It has died.
    os.write(stdin, f'{run_dir}\n'.encode())
  try:
    yield
  finally:
    os.close(stdin)
    if not _has_sent_all(pid, finish_secs):
      print(f'Weights & Biases has not got all rows; {log} says why, and how '
            'to send the rest', flush=True)


def _has_sent_all(pid: int, finish_secs: float) -> bool:
  """Returns whether the tracker exits with 0 in time; kills it if late."""
  with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
    try:  # No status is kept where SIGCHLD is ignored.
      return psutil.Process(pid).wait(finish_secs) in (0, None)
    except psutil.TimeoutExpired:
      os.killpg(pid, signal.SIGKILL)  # With what the package has started.
      return False
  return True
