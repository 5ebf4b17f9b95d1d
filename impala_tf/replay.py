"""Unrolls on their way from actors to the learner: the Reverb queue.

One unroll is one Reverb step (one `append` of the whole structure) and one
item. The queue gives back-pressure: a full table leaves the insertions of a
writer unconfirmed, and `flush` waits for them.
"""

from typing import Optional, Sequence

import reverb

from impala_tf import connection
from impala_tf import packing
from impala_tf import ports
from impala_tf import types

QUEUE = 'queue'


def make_queue(spec: types.Unroll, capacity: int) -> reverb.Table:
  """First in, first out, each unroll (see `types.unroll_spec`) read once."""
  return reverb.Table.queue(QUEUE, capacity,
                            signature=packing.Packing(spec).signature)


def make_server(tables: Sequence[reverb.Table],
                port: Optional[int]) -> reverb.Server:
  """Serves `tables` on `port`, or on a free one.

  Raises:
    OSError: where the port is taken.
  """
  return reverb.Server(list(tables), port=ports.choose(port))


class UnrollWriter:
  """An actor process's way into the queue."""

  def __init__(self, address: str, spec: types.Unroll):
    """Connects.

    Args:
      address: 'host:port' of the server.
      spec: of one unroll, as the table was made for.

    Raises:
      ConnectionError: where it does not answer.
    """
    self._client = reverb.Client(address)
    connection.server_info(self._client)  # What follows would wait for ever.
    self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)
    self._packing = packing.Packing(spec)

  def write(self, unroll: types.Unroll) -> None:
    """Sends one unroll; copies it, so buffers may be used again.

    Args:
      unroll: NumPy arrays without a batch dimension.

    Raises:
      ValueError: where shapes or dtypes are not those of the spec.
    """
    self._writer.append(self._packing.pack(unroll))
    self._writer.create_item(
        QUEUE, priority=1.0,
        trajectory=tuple(column[-1] for column in self._writer.history))

  def flush(self, max_pending: int = 0) -> None:
    """Waits until the queue has taken all, or nearly all, that was written.

    Args:
      max_pending: so many unrolls may still be on their way.

    Raises:
      ConnectionError: where the server does not answer any more.
    """
    connection.flush(self._client, self._writer, max_pending)
