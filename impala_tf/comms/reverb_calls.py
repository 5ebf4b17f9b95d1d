"""Calls to a Reverb server that do not wait for ever if the server dies.

A call without a deadline would wait for ever when a server dies. Yet a server
may be slow for a good reason (a full queue, a suspended machine). So after each
deadline it is asked whether it is alive.
"""

from concurrent import futures
import threading
import time
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import reverb
import tensorflow as tf

_CALL_TIMEOUT_SECS = 1
# A learner may be stopped, or the network cut, for a while.
_PROBE_TIMEOUT_SECS = 90


def server_info(client: reverb.Client, timeout_secs: int | None = None
                ) -> Mapping[str, Any]:
  """Asks a server for the name and `reverb.TableInfo` of each table.

  Raises ConnectionError without an answer in time, by default 90 seconds. Stop
  signals are handled every second meanwhile: a dead server takes all the time.
  """
  deadline = time.monotonic() + (timeout_secs or _PROBE_TIMEOUT_SECS)
  while True:
    try:
      return client.server_info(timeout=_CALL_TIMEOUT_SECS)
    except Exception as error:  # Reverb raises errors of several kinds.
      if (not isinstance(error, reverb.errors.DeadlineExceededError)
          or time.monotonic() >= deadline):
        raise ConnectionError(f'the Reverb server does not answer: {error}'
                             ) from error


def newest_item(client: reverb.Client, table: str) -> Sequence[np.ndarray]:
  """Returns the columns of the item in a table of `newest_item_table`.

  The table must have one. Raises ConnectionError as `server_info` does. If the
  machine lost power, `sample` alone would wait for ever on an open connection.
  """
  found: futures.Future = futures.Future()

  def sample():
    try:
      found.set_result(next(iter(client.sample(
          table, emit_timesteps=False, unpack_as_table_signature=True))).data)
    except Exception as error:  # Reverb raises errors of several kinds.
      found.set_exception(error)

  threading.Thread(target=sample, daemon=True).start()
  try:
    return found.result(_PROBE_TIMEOUT_SECS)
  except Exception as error:
    raise ConnectionError(
        f'the Reverb server does not answer (at most {_PROBE_TIMEOUT_SECS} s): '
        f'{error!r}') from error


def newest_item_table(name: str, *signature: tf.TensorSpec) -> reverb.Table:
  """Makes a table that stores only the newest item, of columns `signature`."""
  return reverb.Table(
      name=name, sampler=reverb.selectors.Fifo(),
      remover=reverb.selectors.Fifo(), max_size=1, max_times_sampled=0,
      rate_limiter=reverb.rate_limiters.MinSize(1), signature=signature)


def save(client: reverb.Client) -> None:
  """Makes a server write its tables to disk; raises OSError if that fails."""
  try:
    client.checkpoint()
  except (RuntimeError, IndexError) as error:  # The latter of a full disk.
    raise OSError(f'the replay could not be saved: {error}') from error


def flush(client: reverb.Client, writer: reverb.TrajectoryWriter,
          max_pending: int = 0, on_wait: Callable[[], None] = lambda: None,
          probe_secs: int | None = None) -> None:
  """Waits, as long as it takes, until tables have received a writer's items.

  Up to `max_pending` items may still be on their way then. Calls `on_wait`
  about every second. Raises ConnectionError if the server does not answer in
  `probe_secs`, see `server_info`.
  """
  while True:
    try:
      writer.flush(block_until_num_items=max_pending,
                   timeout_ms=1000 * _CALL_TIMEOUT_SECS)
      return
    except reverb.errors.DeadlineExceededError:
      server_info(client, probe_secs)
      on_wait()


def insert(client: reverb.Client, writer: reverb.TrajectoryWriter, table: str,
           columns: Sequence[np.ndarray | np.generic]) -> None:
  """Inserts an item of one step into a table; waits until it has arrived.

  The writer must have no pending items. Raises as `flush` does.
  """
  writer.append(tuple(columns))
  writer.create_item(
      table, priority=1.0,
      trajectory=tuple(column[-1] for column in writer.history))
  flush(client, writer)
