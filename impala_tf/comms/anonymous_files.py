"""Anonymous files that processes of one machine share.

Such a file vanishes with the last process that has it open, however processes
end, and so does a lock on it (`flock`). Others open it as /proc/PID/fd/FD of
its maker. They find it by the name of a Reverb table, which stays empty but
appears in the server's list of tables. Processes on other machines, in other
containers or of other users cannot open it.
"""

import contextlib
import fcntl
import os
import pathlib
import time
from typing import IO, Iterator, Optional, Tuple

_BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')
_LOCKS = pathlib.Path('/proc/locks')
_POLL_SECS = 0.0005


def make(prefix: str, token: str) -> IO[bytes]:
  """Makes an empty file of a kind (`prefix`), identified by random text.

  Raises AttributeError if this is not Linux, OSError if the system has none.
  """
  return open(os.memfd_create(f'impala_tf_{prefix}{token}'), 'r+b', buffering=0)


def name(prefix: str, token: str, file: IO[bytes]) -> str:
  """Returns the name by which others find a file of `make`."""
  return (f'{prefix}{_BOOT_ID.read_text().strip()}/{os.getpid()}/'
          f'{file.fileno()}/{token}')


def open_named(full_name: str, prefix: str, mode: str) -> Tuple[IO[bytes], str]:
  """Opens another process's file by its `name`, in a mode of `open`.

  Returns the file, and a path that exists as long as its maker has it. Raises
  OSError if this process cannot open it, ValueError if it does not exist here.
  """
  boot_id, pid, fd, token = full_name[len(prefix):].split('/')
  if boot_id != _BOOT_ID.read_text().strip():
    raise ValueError('it is on another machine')
  path = f'/proc/{int(pid)}/fd/{int(fd)}'
  # In another container, the number is that of another process.
  if os.readlink(path) != f'/memfd:impala_tf_{prefix}{token} (deleted)':
    raise ValueError('it is another file')
  return open(path, mode, buffering=0), path


@contextlib.contextmanager
def lock(fd: int, operation: int, limit_secs: float) -> Iterator[bool]:
  """Locks a file (`LOCK_EX` or `LOCK_SH`); yields False if out of time."""
  deadline = time.monotonic() + limit_secs
  while True:
    try:
      fcntl.flock(fd, operation | fcntl.LOCK_NB)
      break
    except BlockingIOError:
      if time.monotonic() > deadline:
        yield False
        return
      time.sleep(_POLL_SECS)
  try:
    yield True
  finally:
    fcntl.flock(fd, fcntl.LOCK_UN)


def lock_holder(fd: int) -> Optional[int]:
  """Returns the id of a process that holds a file's lock; None if unknown."""
  status = os.fstat(fd)
  file = (f'{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:'
          f'{status.st_ino}')
  # Such as '1: FLOCK  ADVISORY  WRITE 29167 00:16:3591 0 EOF'; a process that
  # waits for a lock has an arrow before its kind.
  with contextlib.suppress(OSError):
    for line in _LOCKS.read_text().splitlines():
      _, kind, _, _, pid, locked, *_ = line.split()
      if kind == 'FLOCK' and locked == file:
        return int(pid)
  return None
