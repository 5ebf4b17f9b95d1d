"""Signals by which a user or a system asks a program to stop."""

import signal
from typing import Optional

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
  """A context in which signals to stop are noted, and do nothing else.

  Attributes:
    first: the first signal that came; None before.
    are_repeated: whether another came after it, as of a user who does not want
      to wait.
  """

  def __init__(self):
    self.first: Optional[int] = None
    self.are_repeated = False

  def __enter__(self) -> 'StopSignals':
    self._handlers = {signum: signal.signal(signum, self._note)
                      for signum in STOP_SIGNALS}
    return self

  def __exit__(self, *unused):
    for signum, handler in self._handlers.items():
      signal.signal(signum, handler)

  def _note(self, signum, unused_frame):
    self.are_repeated = self.first is not None
    self.first = self.first or signum
