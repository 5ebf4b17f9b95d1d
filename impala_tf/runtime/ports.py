"""Free ports for servers; standard library only."""

import socket
from typing import List, Optional, Sequence, Tuple


def listen(port: int) -> socket.socket:
  """Listens at a port of all addresses, 0 for a free one; may raise OSError."""
  has_both = socket.has_dualstack_ipv6()
  return socket.create_server(
      ('', port), family=socket.AF_INET6 if has_both else socket.AF_INET,
      dualstack_ipv6=has_both)


def choose(port: Optional[int] = None) -> int:
  """Returns `port` if nothing listens on it; for None, a free port.

  Reverb's servers need a checked port: two of them would silently share one.
  Raises OSError if the port is taken, or none is free.
  """
  try:
    with listen(port or 0) as probe:
      return probe.getsockname()[1]
  except (OSError, OverflowError) as error:
    raise OSError(f'port {port} cannot be used ({error}); choose another, or '
                  'none to get a free one') from error


def choose_free(number: int, besides: Sequence[int] = ()) -> List[int]:
  """Returns distinct free ports that are not in `besides`."""
  found: List[int] = []
  while len(found) < number:
    port = choose()
    if port not in (*found, *besides):
      found.append(port)
  return found


def claim(port: Optional[int] = None) -> Tuple[int, socket.socket]:
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
                  'choose another, or none to get a free one') from error
  return port, claimed
