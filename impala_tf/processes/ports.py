"""Choosing a port for a server; standard library only."""

import socket
from typing import List, Optional, Sequence, Tuple


def choose(port: Optional[int] = None) -> int:
  """Returns `port` if nothing listens on it, or a free one for None.

  Reverb must be asked nothing else: two of its servers share a port in silence.

  Raises:
    OSError: where the port is taken or none at all.
  """
  with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    # Else the connections of a server that was killed would keep its port from
    # the next one for a minute. A port that is listened on stays taken.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
      probe.bind(('::', port or 0))
    except (OSError, OverflowError) as error:
      raise OSError(f'port {port} cannot be used ({error}); choose another, or '
                    'none to get a free one') from error
    return probe.getsockname()[1]


def choose_free(number: int, besides: Sequence[int] = ()) -> List[int]:
  """Returns free ports, all different, and none of `besides`."""
  found = []
  while len(found) < number:
    port = choose()
    if port not in (*found, *besides):
      found.append(port)
  return found


def claim(port: Optional[int] = None) -> Tuple[int, socket.socket]:
  """Chooses a port and keeps it from all others that ask here.

  Of two processes that look at the same time, both would find it free.

  Args:
    port: None for a free one.

  Returns:
    The port, and a socket that holds it until it is closed or the process ends.

  Raises:
    OSError: where the port is taken or none at all.
  """
  port = choose(port)
  claimed = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
  try:
    # A name without a file, of this network namespace as ports are.
    claimed.bind(f'\0impala_tf-port-{port}')
    choose(port)  # Whoever held it may have begun to listen.
  except OSError as error:
    claimed.close()
    raise OSError(f'port {port} cannot be used (another learner has it); '
                  'choose another, or none to get a free one') from error
  return port, claimed
