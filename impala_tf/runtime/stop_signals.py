"""Signals that ask a program to stop."""

import signal
import threading
from typing import Any, Dict, Optional

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
  """A context that records stop signals instead of acting on them.

  Python lets only the main thread handle signals; other threads record none.
  `first` is the first signal, or None; `are_repeated` whether another followed.
  """

  def __init__(self, note_first_only: bool = False):
    """Starts without a signal.

    With `note_first_only`, a second signal is handled as before the context,
    for processes that may hang in the user's code.
    """
    self._note_first_only = note_first_only
    self._handlers: Dict[int, Any] = {}
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
