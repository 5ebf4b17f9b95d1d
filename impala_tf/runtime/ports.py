"""Free ports for servers; standard library only."""

import socket
from typing import Sequence


def bound(port: int) -> socket.socket:
  """Makes a socket bound to a port of all addresses; for 0, to a free port.

  Unlike that of `socket.create_server` it does not listen yet, for peers look
  for listeners. Raises OSError if the port is taken.
  """
  has_both = socket.has_dualstack_ipv6()
  made = socket.socket(socket.AF_INET6 if has_both else socket.AF_INET,
                       socket.SOCK_STREAM)
  try:
    if has_both:
      made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    # Otherwise the connections of a server that was killed would block its port
    # for a minute. A port on which a server listens stays taken.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(('', port))
  except (OSError, OverflowError):
    made.close()
    raise
  return made


def choose(port: int | None = None) -> int:
  """Returns `port` if nothing listens on it; for None, a free port.

  Reverb's servers need a checked port: two of them would silently share one.
  Raises OSError if the port is taken, or none is free.
  """
  try:
    with bound(port or 0) as probe:
      return probe.getsockname()[1]
  except (OSError, OverflowError) as error:
    raise OSError(
        f'port {port} cannot be used ({error}); choose another') from error


def choose_free(number: int, besides: Sequence[int] = ()) -> list[int]:
  """Returns distinct free ports that are not in `besides`."""
  found: list[int] = []
  while len(found) < number:
    port = choose()
    if port not in (*found, *besides):
      found.append(port)
  return found


def claim(port: int | None = None) -> tuple[int, socket.socket]:
  """Chooses a port like `choose`, and reserves it among callers of `claim`.

  Two processes that only check at the same time would both find it free.
  Returns also a socket, which holds the port until it is closed.
  """
  port = choose(port)
  claimed = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
  try:
    # A name without a file, which like ports belongs to the network namespace.
    claimed.bind(f'\0impala_tf-port-{port}')
    choose(port)  # A process that held it may have begun to listen.
  except OSError as error:
    claimed.close()
    raise OSError(f'port {port} cannot be used (another learner has it); '
                  'choose another') from error
  return port, claimed
