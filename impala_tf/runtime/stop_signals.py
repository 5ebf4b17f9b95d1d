"""Signals that ask a program to stop."""

import contextlib
import os
import signal
import threading
import time
from typing import Any, Callable, Iterator

from impala_tf.runtime import leftovers
from impala_tf.runtime import output

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# One request may arrive twice: `timeout` and Slurm signal a program and then
# its group, a closing terminal sends SIGHUP besides that of its shell.
_ONE_REQUEST_SECS = 1.
# More than `env_processes` gives its processes, less than a supervisor waits.
_CLOSE_SECS = 6.5
_REPEAT_SECS = 0.1

_open: set[Any] | None = None  # Within `interrupting`.


def handle(handler: Callable[[int, Any], None]) -> dict[int, Any]:
  """Sets the handler of all stop signals; returns the previous handlers.

  A SIGHUP that is ignored, as under nohup, stays ignored.
  """
  return {signum: signal.signal(signum, handler) for signum in STOP_SIGNALS
          if not (signum == signal.SIGHUP and
                  signal.getsignal(signum) == signal.SIG_IGN)}


class StopSignals:
  """A context that records stop signals instead of acting on them.

  Python lets only the main thread handle signals; other threads record none.
  """

  def __init__(self, note_first_only: bool = False,
               clock: Callable[[], float] = time.monotonic):
    """Prepares the context, with no signal recorded.

    With `note_first_only`, a repeated signal is handled as before the context,
    for processes that may hang in the user's code.
    """
    self._note_first_only = note_first_only
    self._clock = clock
    self._handlers: dict[int, Any] = {}
    self._first_time = 0.
    self.first: int | None = None
    self.are_repeated = False  # Whether one more came after a second.

  def __enter__(self) -> 'StopSignals':
    output.waits_for_ever = False  # A write would hold up signals.
    if threading.current_thread() is threading.main_thread():
      self._handlers = handle(self._note)
    return self

  def __exit__(self, *unused):
    for signum, handler in self._handlers.items():
      signal.signal(signum, handler)

  def _note(self, signum, unused_frame):
    now = self._clock()
    if self.first is None:
      self.first, self._first_time = signum, now
    elif now - self._first_time > _ONE_REQUEST_SECS:
      self.are_repeated = True
      if self._note_first_only:
        self.__exit__()
        signal.raise_signal(signum)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
  """Delays stop signals until the end of the context.

  The deadline of `interrupting` counts from a signal's arrival: it ends the
  process if the context takes longer. A repeated signal is handled at once.
  """
  signals = StopSignals(note_first_only=True)
  try:
    with signals:
      yield
  finally:
    if signals.first is not None:
      signal.raise_signal(signals.first)


def opened(resource: Any) -> None:
  """Makes `interrupting` close a resource at its end unless `closed` is called.

  A signal can come when a resource is there but no `Closing` has it yet.
  """
  if _open is not None:
    _open.add(resource)


def closed(resource: Any) -> None:
  """Undoes `opened` for a resource; may be called twice."""
  if _open is not None:
    _open.discard(resource)


class Closing(contextlib.closing):
  """A `contextlib.closing` whose `close` stop signals do not interrupt."""

  def __exit__(self, *exc_info):
    with uninterrupted():
      super().__exit__(*exc_info)


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
  """Makes stop signals raise KeyboardInterrupt, with the signal's number.

  Environments are closed on its way out. If that takes too long, since a
  simulator hangs, the process ends. All processes that it has started end, too.
  """
  global _open
  _open = set()
  noted: list[int] = []
  has_ended = threading.Event()
  reading, writing = os.pipe()

  def watch():
    # Open until the end: Python complains if a signal has no reader.
    with open(reading, 'rb', buffering=0) as written:
      for (number,) in iter(lambda: written.read(1), b''):
        if number not in STOP_SIGNALS or has_ended.wait(_REPEAT_SECS):
          continue
        # It came right before a call that it has not cut short.
        if not noted and signal.getsignal(number) is interrupt:
          signal.pthread_kill(threading.main_thread().ident, number)
        if not has_ended.wait(_CLOSE_SECS):
          leftovers.kill(mark)
          os._exit(128 + number)

  def interrupt(signum, unused_frame):
    handle(lambda *unused: None)  # The closing is not interrupted.
    noted.append(signum)
    raise KeyboardInterrupt(signum)

  threading.Thread(target=watch, daemon=True).start()
  os.set_blocking(writing, False)
  # The watch hears of signals while the main thread is outside of Python.
  old_writing = signal.set_wakeup_fd(writing)
  handlers = handle(interrupt)
  try:
    with leftovers.killed_at_end() as mark:
      try:
        yield
      finally:
        with uninterrupted():
          for resource in list(_open):
            resource.close()
  except Exception as error:
    if noted:  # Libraries have made another error of it.
      raise KeyboardInterrupt(noted[0]) from error
    raise
  finally:
    for signum, handler in handlers.items():
      signal.signal(signum, handler)
    signal.set_wakeup_fd(old_writing)
    _open = None
    has_ended.set()
    os.close(writing)
