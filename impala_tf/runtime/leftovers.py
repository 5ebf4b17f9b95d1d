"""Kills processes that a program leaves behind, such as simulators.

A program can die before it closes its environments, and processes that they
have started may be in other sessions. All inherit an environment variable with
the marks of their ancestors. Standard library only.
"""

import contextlib
import os
import pathlib
import signal
import time
from typing import Iterator
import uuid

VARIABLE = 'IMPALA_TF_STARTED_BY'  # Marks, with spaces between them.

_MAX_TRIES = 100
_POLL_SECS = 0.01
# Removes shared memory whose owners have died, and then ends by itself.
_CLEANER = b'multiprocessing.resource_tracker'


def added_to_own(mark: str) -> str:
  """Returns `VARIABLE` for children: this process's marks and one more."""
  return f'{os.environ.get(VARIABLE, "")} {mark}'


def kill(mark: str) -> None:
  """Kills all processes that have inherited a mark, except this one."""
  for _ in range(_MAX_TRIES):  # Meanwhile they may start others.
    found = [pid for pid in map(int, filter(str.isdecimal, os.listdir('/proc')))
             if pid != os.getpid() and _has(pid, mark)]
    if not found:
      return
    for pid in found:
      with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    time.sleep(_POLL_SECS)


def _has(pid: int, mark: str) -> bool:
  process = pathlib.Path('/proc', str(pid))
  try:  # A mark is 32 random digits: no other variable has it by chance.
    return (mark.encode() in (process / 'environ').read_bytes() and
            _CLEANER not in (process / 'cmdline').read_bytes())
  except OSError:  # It has ended, or is another user's.
    return False


@contextlib.contextmanager
def killed_at_end() -> Iterator[str]:
  """Yields a mark that new processes inherit; kills all of them at the end."""
  mark, before = uuid.uuid4().hex, os.environ.get(VARIABLE, '')
  os.environ[VARIABLE] = added_to_own(mark)
  try:
    yield mark
  finally:
    kill(mark)
    os.environ[VARIABLE] = before
