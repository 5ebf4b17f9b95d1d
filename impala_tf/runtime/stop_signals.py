"""Signals by which a user or a system asks a program to stop."""

import signal
import threading
from typing import Optional

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
  """A context in which signals to stop are noted, and do nothing else.

  Python lets only the main thread handle signals: in another none is noted.

  Attributes:
    first: the first signal that came; None before.
    are_repeated: whether another came after it, as of a user who does not want
      to wait.
  """

  def __init__(self, note_first_only: bool = False):
    """Notes nothing yet.

    Args:
      note_first_only: whether a second signal is handled as before the context,
        for a process that may hang in code of the user's own.
    """
    self._note_first_only = note_first_only
    self._handlers = {}
    self.first: Optional[int] = None
    self.are_repeated = False

  def __enter__(self) -> 'StopSignals':
    if threading.current_thread() is threading.main_thread():
      self._handlers = {signum: signal.signal(signum, self._note)
                        for signum in STOP_SIGNALS}
    return self

  def __exit__(self, *unused):
    self._restore()

  def _restore(self):
    for signum, handler in self._handlers.items():
      signal.signal(signum, handler)

  def _note(self, signum, unused_frame):
    self.are_repeated = self.first is not None
    self.first = self.first or signum
    if self._note_first_only:
      self._restore()
