"""Cores that the actors of one run have to themselves on their machine.

The scheduler moves processes from core to core; an actor that stays on one
keeps what it has in that core's caches. The learner and all else move freely.

Two runs on a machine must not stay on the same cores. So the process that
starts a run's actors claims the cores by locks on the directories that the
kernel has for them: nothing is left behind, and a lock ends with its holder,
however that dies. Other runs see the locks, also from a network of its own,
unless it has a /sys of its own, as in a container: give containers cores of
their own, or set `ActorConfig.pinned = False`.
"""

import contextlib
import fcntl
import os
import pathlib
from typing import Iterator, List

from impala_tf import config as config_lib

_DIRECTORIES = pathlib.Path('/sys/devices/system/cpu')


@contextlib.contextmanager
def claim(config: config_lib.Config) -> Iterator[List[int]]:
  """Claims a core for each actor of a run, until the end of the context.

  Args:
    config: config of the run, with a number for `ActorConfig.num_actors`.

  Yields:
    The number of each actor's core; nothing where actors are to move freely:
    there are more or fewer of them than cores that this process may use, they
    have processes beside them, or another run has claimed a core.
  """
  cores = sorted(os.sched_getaffinity(0))
  actor = config.actor
  if (not actor.pinned or actor.env_processes
      or actor.num_actors != len(cores)):
    cores = []
  with contextlib.ExitStack() as claims:
    try:
      for core in cores:
        directory = os.open(_DIRECTORIES / f'cpu{core}', os.O_RDONLY)
        claims.callback(os.close, directory)  # No child inherits it.
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # Another run's, or this system shows no cores.
      claims.close()
      cores = []
    yield cores


def stay_on(core: int) -> None:
  """Keeps this thread, and those that it starts from now on, on a core."""
  # Where the core was taken from this process meanwhile, it moves freely.
  with contextlib.suppress(OSError):
    os.sched_setaffinity(0, {core})
