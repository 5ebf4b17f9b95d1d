"""Waiting for another process: with a deadline, and not in silence.

Standard library only.
"""

import socket
import time
from typing import Callable

_SAY_SECS = 30.
# Polls are a fraction of a second apart. Where two are further apart, this
# process was stopped in between, or its machine was, and not waiting.
_MAX_POLL_SECS = 20.
_POLL_SECS = 0.2
_CONNECT_TIMEOUT_SECS = 5.

# Called over and over with the cause while something is waited for; may raise.
PollFn = Callable[[str], None]


class PeerMissing(ConnectionError):
  """Whom was waited for has not come in time."""


class PeerLost(ConnectionError):
  """Whom this process works together with has gone."""


class Waiting:
  """One wait, or one after the other, for the same."""

  def __init__(self, whom: str, limit_secs: float,
               say: Callable[[str], None]):
    """Begins to wait.

    Args:
      whom: and what for, in words that follow 'waiting for'.
      limit_secs: after which `poll` raises.
      say: is given lines.
    """
    self._whom = whom
    self._limit_secs = limit_secs
    self._say = say
    self._secs = 0.
    self._last_poll = time.monotonic()
    self._next_line_secs = 0.

  def poll(self, cause: str = '') -> None:
    """Is to be called again and again while it goes on; says so at times.

    Args:
      cause: why it is not over.

    Raises:
      PeerMissing: where it has taken too long.
    """
    now = time.monotonic()
    self._secs += min(now - self._last_poll, _MAX_POLL_SECS)
    self._last_poll = now
    because = f': {cause}' if cause else ''
    if self._secs >= self._limit_secs:
      raise PeerMissing(
          f'waited {self._limit_secs:g} s for {self._whom}, in vain{because}')
    if self._secs >= self._next_line_secs:
      self._say(f'waiting for {self._whom} ({self._secs:.0f} of '
                f'{self._limit_secs:g} s){because}')
      self._next_line_secs = self._secs + _SAY_SECS

  def restart(self) -> float:
    """Ends this wait and begins another, which says nothing at first.

    Returns:
      The seconds that this one took.
    """
    secs = self._secs + min(time.monotonic() - self._last_poll, _MAX_POLL_SECS)
    self._secs = 0.
    self._last_poll = time.monotonic()
    self._next_line_secs = _SAY_SECS
    return secs


def for_port(address: str, poll: PollFn) -> None:
  """Returns when something listens there.

  Args:
    address: 'host:port'.
    poll: is called over and over with the cause why not, and may raise.
  """
  host, _, port = address.rpartition(':')
  while True:
    try:
      socket.create_connection(
          (host.strip('[]'), int(port)), _CONNECT_TIMEOUT_SECS).close()
      return
    except OSError as error:  # Refused, no such host, no way to it.
      poll(str(error))
    time.sleep(_POLL_SECS)
