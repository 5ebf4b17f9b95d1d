"""The flag --track: a process beside training that sends rows to a service.

The process is `impala_tf.cli.wandb_tracker`. It reads the files that training
writes, so no failure of the service, the network or the process can harm a run.
It starts before the run enters its private network, where it would reach
nobody.
"""

import argparse
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from typing import Iterator, Optional

from impala_tf import config as config_lib
from impala_tf.runs import run_directory

# Holds the tracker's process id and the file descriptor of its standard input,
# through the execution of this program within another network.
_TRACKER = 'IMPALA_TF_TRACKER'
_FINISH_SECS = 30.  # For the last rows, once training has ended.
_POLL_SECS = 0.1
LOG_NAME = 'tracker.log'

# The tracker where this program has not been executed anew since its start.
# Without a reference to it Python would collect its exit status unseen.
_process: Optional[subprocess.Popen] = None


def add_flag(parser: argparse.ArgumentParser) -> None:
  """Adds the flag --track."""
  parser.add_argument('--track', action='store_true',
                      help='send rows and config to Weights & Biases; its own '
                      'variables apply, such as WANDB_MODE=offline and '
                      'WANDB_PROJECT (docs/tracking.md)')


def start(track: bool) -> None:
  """Starts the tracker, which waits for the run's directory.

  It does nothing without --track, or if this program was executed anew since
  the tracker started. Raises UserError if the package is not installed.
  """
  global _process
  if not track or _TRACKER in os.environ:
    return
  spec = importlib.util.find_spec('wandb')
  # A directory called wandb, as the package leaves them, is no package.
  if spec is None or spec.origin is None:
    raise config_lib.UserError(
        "--track needs the package wandb: pip install -c constraints.txt -e "
        "'.[wandb]'")
  _process = subprocess.Popen(
      [sys.executable, '-m', 'impala_tf.cli.wandb_tracker'],
      stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
      stderr=subprocess.DEVNULL, start_new_session=True)
  stdin = os.dup(_process.stdin.fileno())
  _process.stdin.close()
  os.set_inheritable(stdin, True)
  os.environ[_TRACKER] = f'{_process.pid} {stdin}'


@contextlib.contextmanager
def tracking(track: bool, run_dir: str) -> Iterator[None]:
  """Has the tracker follow a run within the context.

  At the end it has half a minute for unsent rows.
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
    if _wait(pid) != 0:
      print(f'Weights & Biases has not got all rows; {log} says why, and how '
            'to send the rest', flush=True)


def _wait(pid: int) -> Optional[int]:
  """Waits for the tracker; returns its status, or None if it was killed."""
  deadline = time.monotonic() + _FINISH_SECS
  while time.monotonic() < deadline:
    status = _status(pid)
    if status is not None:
      return status
    time.sleep(_POLL_SECS)
  with contextlib.suppress(ProcessLookupError):
    os.killpg(pid, signal.SIGKILL)  # With what the package has started.
  return None


def _status(pid: int) -> Optional[int]:
  """Returns the tracker's status, 0 for success; None while it runs."""
  if _process is not None:
    return _process.poll()
  try:
    ended, status = os.waitpid(pid, os.WNOHANG)
  except ChildProcessError:  # No status is kept where SIGCHLD is ignored.
    return 0
  return status if ended else None
