"""CPU cores: the processor's name, and cores reserved for a run's actors.

The scheduler moves processes from core to core; an actor that stays on one
keeps its data in that core's caches. All other processes move freely.

Two runs must not use the same cores, so the process that starts a run's actors
locks the kernel's directory of each core. A lock ends with its holder, however
it dies. Runs in a container with its own /sys do not see it: give containers
separate cores, or set `ActorConfig.pinned = False`.
"""

import contextlib
import fcntl
import os
import pathlib
from typing import Iterator

from impala_tf import config as config_lib

_DIRECTORIES = pathlib.Path('/sys/devices/system/cpu')


@contextlib.contextmanager
def claim(config: config_lib.Config,
          directories: pathlib.Path = _DIRECTORIES) -> Iterator[list[int]]:
  """Claims a core for each of `ActorConfig.num_actors` until the context ends.

  Yields the core of each actor. It yields none if their number is not that of
  this process's cores, they have environment processes, or another run has
  claimed a core: then actors move freely.
  """
  cores = sorted(os.sched_getaffinity(0))
  actor = config.actor
  if (not actor.pinned or actor.env_processes
      or actor.num_actors != len(cores)):
    cores = []
  with contextlib.ExitStack() as claims:
    try:
      for core in cores:
        directory = os.open(directories / f'cpu{core}', os.O_RDONLY)
        claims.callback(os.close, directory)  # No child inherits it.
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # Another run's, or this system shows no cores.
      claims.close()
      cores = []
    yield cores


def stay_on(core: int) -> None:
  """Pins this thread, and all threads that it starts later, to a core."""
  # If this process has lost the core meanwhile, it moves freely.
  with contextlib.suppress(OSError):
    os.sched_setaffinity(0, {core})


def cpuinfo(fact: str, path: str = '/proc/cpuinfo') -> str:
  """Returns a line of /proc/cpuinfo on the first processor; '' without it."""
  with contextlib.suppress(OSError), open(path, encoding='utf-8') as file:
    for name, _, value in (line.partition(':') for line in file):
      if name.strip() == fact:
        return value.strip()
  return ''


def machine() -> str:
  """Returns the machine's number of cores and its processor's name, as text."""
  return (f'{os.cpu_count()} cores of '
          f'{cpuinfo("model name") or "unknown processor"}')
