"""What a process does that `supervisor` keeps alive. Standard library only."""

import os
import pathlib
import sys
import threading
from typing import Callable

_ACTOR_NICENESS = 10  # Of 19; each halves and more.


def stop_with_parent(stop: Callable[[], None]) -> None:
  """Calls `stop` from a thread once the supervisor is gone."""

  def watch():
    try:
      while os.read(sys.stdin.fileno(), 1):
        pass
    except OSError:
      pass
    stop()

  threading.Thread(target=watch, daemon=True).start()


def yield_to_others() -> None:
  """Lowers the priority of this process below that of its siblings.

  For actors: where all cores are busy the learner gets what it needs, and they
  share the rest. Otherwise it would get a fair share, which is too little, and
  then they would wait for it.
  """
  os.nice(_ACTOR_NICENESS)
  try:
    # Where the kernel groups processes by session, only this has an effect.
    pathlib.Path('/proc/self/autogroup').write_text(str(_ACTOR_NICENESS))
  except OSError:
    pass
