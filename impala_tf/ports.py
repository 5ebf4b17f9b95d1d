"""Choosing a port for a server; standard library only."""

import socket
from typing import Optional


def choose(port: Optional[int] = None) -> int:
  """Returns `port` if nothing listens on it, or a free one for None.

  Reverb must be asked nothing else: two of its servers share a port in silence.

  Raises:
    OSError: where the port is taken or none at all.
  """
  with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
      probe.bind(('::', port or 0))
    except (OSError, OverflowError) as error:
      raise OSError(f'port {port} cannot be used ({error}); choose another, or '
                    'none to get a free one') from error
    return probe.getsockname()[1]
