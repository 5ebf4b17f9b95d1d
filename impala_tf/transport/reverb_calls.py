"""Talking to a Reverb server without ever waiting for a dead one.

Nothing raises by itself when a server dies: calls without a deadline wait for
ever. A deadline alone will not do either, since a server may be slow for a good
reason (a full queue, a machine that was suspended): when one passes, the server
is asked whether it is there.
"""

from typing import Any, Mapping, Optional

import reverb

_FLUSH_TIMEOUT_MS = 1_000
# A learner may be stopped for a while, or a network cut. Of one that is gone
# for good a supervisor tells sooner.
_PROBE_TIMEOUT_SECS = 90


def server_info(client: reverb.Client, timeout_secs: Optional[int] = None
                ) -> Mapping[str, Any]:
  """What the server says of its tables.

  Args:
    client: of the server.
    timeout_secs: after which it counts as gone; None: after 90.

  Raises:
    ConnectionError: where it does not answer.
  """
  try:
    return client.server_info(timeout=timeout_secs or _PROBE_TIMEOUT_SECS)
  except Exception as error:  # Reverb raises several kinds.
    raise ConnectionError(f'the Reverb server does not answer: {error}'
                         ) from error


def flush(client: reverb.Client, writer: reverb.TrajectoryWriter,
          max_pending: int = 0) -> None:
  """Waits, as long as it takes, until tables have taken a writer's items.

  Args:
    client: of the writer's server.
    writer: whose items are on their way.
    max_pending: so many may still be.

  Raises:
    ConnectionError: where the server does not answer any more.
  """
  while True:
    try:
      writer.flush(block_until_num_items=max_pending,
                   timeout_ms=_FLUSH_TIMEOUT_MS)
      return
    except reverb.errors.DeadlineExceededError:
      server_info(client)
