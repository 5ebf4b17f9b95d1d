"""Waiting for another process, with a deadline and messages to the user."""

import socket
import time
from typing import Callable

LIMIT_SECS = 600.  # For a peer; environments that may be slow get more.
_SAY_SECS = 30.
# Polls are a fraction of a second apart. More was no waiting: this process or
# its machine was stopped.
_MAX_POLL_SECS = 20.
_POLL_SECS = 0.2

# Called repeatedly, with the cause, while a process waits; may raise.
PollFn = Callable[[str], None]


class PeerMissing(ConnectionError):
  """Error of a peer that did not appear before its deadline."""


class PeerLost(ConnectionError):
  """Error of a peer that has gone while this process worked with it."""


class Waiting:
  """A wait for a peer, with progress messages and a deadline."""

  def __init__(self, peer: str, limit_secs: float, say: Callable[[str], None],
               clock: Callable[[], float] = time.monotonic):
    """Starts the wait for `peer`, a name for messages, which `say` shows."""
    self._peer = peer
    self._limit_secs = limit_secs
    self._say = say
    self._clock = clock
    self._secs = 0.
    self._last_poll = clock()
    self._next_line_secs = 0.

  def poll(self, cause: str = '') -> None:
    """Adds the time since the last call; informs the user every half minute.

    Raises PeerMissing, with the cause, if the wait has taken too long.
    """
    now = self._clock()
    self._secs += min(now - self._last_poll, _MAX_POLL_SECS)
    self._last_poll = now
    because = f': {cause}' if cause else ''
    if self._secs >= self._limit_secs:
      raise PeerMissing(
          f'waited {self._limit_secs:g} s for {self._peer}, in vain{because}')
    if self._secs >= self._next_line_secs:
      limit = f' of {self._limit_secs:g}'.replace(' of inf', '')
      self._say(f'waiting for {self._peer} ({self._secs:.0f}{limit} s)'
                f'{because}')
      self._next_line_secs = self._secs + _SAY_SECS

  def restart(self) -> float:
    """Starts a new wait, silent at first; returns the old wait in seconds."""
    now = self._clock()
    secs = self._secs + min(now - self._last_poll, _MAX_POLL_SECS)
    self._secs = 0.
    self._last_poll = now
    self._next_line_secs = _SAY_SECS
    return secs


def connect(address: str, timeout_secs: float = 5.) -> None:
  """Checks that a server listens at 'host:port'; raises OSError if not."""
  host, _, port = address.rpartition(':')
  socket.create_connection((host.strip('[]'), int(port)), timeout_secs).close()


def for_port(address: str, poll: PollFn) -> None:
  """Waits until a server listens at 'host:port'; calls `poll` meanwhile."""
  while True:
    try:
      connect(address)
      return
    except OSError as error:  # Refused, no such host, or no way to it.
      poll(str(error))
    time.sleep(_POLL_SECS)
