"""The child's side of a supervised program: end, priority, error messages."""

import contextlib
import os
import pathlib
import sys
import threading
import time
from typing import Callable

from impala_tf import config as config_lib

# Exit code of a child with bad input, which COMPLAINT explains.
BAD_INPUT = 2
# Exit code of a learner that is done: with 0 a simulator can end its process.
DONE = 100
# Beginnings of lines for the user: of errors, and of remarks.
COMPLAINT = 'error: '
REMARK = 'note: '
FIRST = 'its first'  # Part of the line by which an actor reports that it plays.

_ACTOR_NICENESS = 10  # Of 19; about a tenth of the share of niceness 0.
# For the last update and a checkpoint, which a slow store may get.
_STOP_LIMIT_SECS = 120.
_MAX_TRIES = 100  # A tenth of a second each, for as many actors at once.


def remark(text: str) -> None:
  """Prints a remark, which the terminal of a supervised run shows once."""
  print(f'{REMARK}{text}', file=sys.stderr, flush=True)


def stop_with_parent(stop: Callable[[], None],
                     limit_secs: float = _STOP_LIMIT_SECS) -> None:
  """Calls `stop` from a thread when the supervisor is gone.

  The supervisor never writes to the child's standard input, which thus ends
  with the supervisor. A process that is still there `limit_secs` after `stop`,
  as in a call of C++ that waits for ever, ends with exit code 1. From now on
  the child has no standard input: a debugger would wait for it for ever.
  """
  supervisor = os.dup(sys.stdin.fileno())
  nothing = os.open(os.devnull, os.O_RDONLY)
  os.dup2(nothing, sys.stdin.fileno())
  os.close(nothing)

  def watch():
    with contextlib.suppress(OSError):
      while os.read(supervisor, 1):
        pass
    stop()
    time.sleep(limit_secs)
    os._exit(1)

  threading.Thread(target=watch, daemon=True).start()


def refuse_breakpoints() -> None:
  """Makes `breakpoint()` raise UserError, with the option that lets it work."""

  def refuse(*unused_args, **unused_kwargs):
    raise config_lib.UserError(
        'breakpoint() needs a terminal, which a child process lacks; train '
        'with ExperimentConfig.in_process = True (docs/debugging.md)')

  sys.breakpointhook = refuse


def yield_to_others() -> None:
  """Lowers the priority of this process below that of its siblings.

  With a fair share of busy cores a learner would be too slow, and its actors
  would wait for it.
  """
  os.nice(_ACTOR_NICENESS)
  for _ in range(_MAX_TRIES):
    try:
      # If the kernel groups processes by session, only this has an effect.
      pathlib.Path('/proc/self/autogroup').write_text(str(_ACTOR_NICENESS))
      return
    except BlockingIOError:  # Only root may do so more than 10 times a second.
      time.sleep(0.1)
    except OSError:
      return
