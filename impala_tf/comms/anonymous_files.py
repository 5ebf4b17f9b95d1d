"""Anonymous files that processes of one machine share.

Such a file vanishes with the last process that has it open, however processes
end, and so does a lock on it (`flock`). Others open it as /proc/PID/fd/FD of
its maker. They find it by the name of a Reverb table, which stays empty but
appears in the server's list of tables. Processes on other machines, in other
containers or of other users cannot open it.
"""

import contextlib
import os
import pathlib
import secrets
from typing import IO, Iterable, NamedTuple

_BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')
_LOCKS = pathlib.Path('/proc/locks')


class Shared(NamedTuple):
  """An open anonymous file, made by this process or by another one."""
  file: IO[bytes]
  name: str  # By which others find it.
  path: str  # Exists as long as its maker has the file.

  def is_there(self) -> bool:
    """Returns whether the process that made the file still has it open."""
    try:
      # Its number may be another process's by now.
      return os.path.samestat(os.stat(self.path), os.fstat(self.file.fileno()))
    except OSError:
      return False


def make(prefix: str, size: int) -> Shared:
  """Makes an anonymous file of `size` zero bytes, whose name has `prefix`.

  Raises AttributeError if this is not Linux, OSError if the system has none.
  """
  token = secrets.token_hex(8)
  file = open(os.memfd_create(f'impala_tf_{prefix}{token}'), 'r+b', buffering=0)
  os.ftruncate(file.fileno(), size)
  name = f'{_BOOT_ID.read_text().strip()}/{os.getpid()}/{file.fileno()}/{token}'
  return Shared(file, prefix + name, f'/proc/self/fd/{file.fileno()}')


def find(prefix: str, tables: Iterable[str], mode: str) -> Shared | None:
  """Opens the anonymous file whose name is in `tables` and has `prefix`.

  Returns None if this process cannot open it, or it does not exist here.
  """
  for name in tables:
    if name.startswith(prefix):
      with contextlib.suppress(OSError, ValueError):
        boot_id, pid, fd, token = name[len(prefix):].split('/')
        path = f'/proc/{int(pid)}/fd/{int(fd)}'
        # In another container, the number is that of another process.
        if (boot_id == _BOOT_ID.read_text().strip() and os.readlink(path)
            == f'/memfd:impala_tf_{prefix}{token} (deleted)'):
          return Shared(open(path, mode, buffering=0), name, path)
  return None


def lock_holder(fd: int) -> int | None:
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
