"""Reverb's queue and replay, which carry unrolls from actors to the learner.

One unroll is one Reverb step (one `append` of the whole structure) and one item
in each table; both items share its data. Appending step by step would take ten
times as much CPU time. A full queue makes actors wait: it does not confirm
their insertions, and `flush` waits for that. The replay never blocks: it drops
its oldest unroll for a new one, and can be sampled once it has one.
"""

import collections
import contextlib
import os
from typing import Any, Callable, Mapping, Sequence
import weakref

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.comms import packing
from impala_tf.comms import reverb_calls
from impala_tf.comms import saved_tables
from impala_tf.runtime import ports
from impala_tf.storage import files

QUEUE = 'queue'
REPLAY = 'replay'

_START_TIMEOUT_SECS = 30

# An item of the replay: places of its unrolls, of which the newest is at -1;
# a single place for an item without a dimension of unrolls; None for no item.
Item = int | Sequence[int] | None
ItemFn = Callable[[packing.PackedUnroll], Item]

_NEW_PRIORITY = 1.  # In units of the mean, see `replay.priorities`.

# Reverb compresses its data. Atari's unrolls become 12 times smaller and those
# of other games less so, DeepMind Lab's colours 2.5 times; numbers hardly.
_GREY_COMPRESSION = 4.
_COLOUR_COMPRESSION = 2.5


def make_queue(spec: types.Unroll, capacity: int) -> reverb.Table:
  """Makes the queue of unrolls: first in, first out, each read once."""
  return reverb.Table.queue(QUEUE, capacity,
                            signature=packing.Packing(spec).signature)


def make_replay(spec: types.Unroll, capacity: int, memory_bytes: int,
                priority_exponent: float = 0.,
                episode_unrolls: int | None = None) -> reverb.Table:
  """Makes the replay (table D.3 of the paper), which drops its oldest items.

  It holds `capacity` unrolls; raises ConfigError if memory is too small for it.

  Args:
    priority_exponent: alpha, the power of priorities; 0: uniform sampling.
    episode_unrolls: largest number of unrolls in an item, if items are chains
      of unrolls (see `replay.episodes`); None: an item is an unroll.
  """
  def compression(field):
    if field.dtype != tf.uint8:
      return 1.
    return _COLOUR_COMPRESSION if field.shape[-1] == 3 else _GREY_COMPRESSION

  size = sum(field.shape.num_elements() * field.dtype.size / compression(field)
             for field in tf.nest.flatten(spec))
  if capacity * size > memory_bytes:
    gib = 1 << 30
    raise config_lib.ConfigError(
        f'ReplayConfig.capacity_unrolls is {capacity}, which takes about '
        f'{capacity * size / gib:.1f} GiB, but there are '
        f'{memory_bytes / gib:.1f} GiB of memory; '
        f'{int(memory_bytes / size / 2)} would take half of it')
  signature = packing.Packing(spec).signature
  if episode_unrolls is not None:
    capacity = max(1, capacity // episode_unrolls)
    signature = tuple(tf.TensorSpec([None, None], column.dtype, column.name)
                      for column in signature)
  return reverb.Table(
      name=REPLAY,
      sampler=(reverb.selectors.Prioritized(priority_exponent)
               if priority_exponent else reverb.selectors.Uniform()),
      remover=reverb.selectors.Fifo(),
      max_size=capacity,
      # More could deadlock: the learner would wait for the replay to fill, and
      # actors for a place in the full queue.
      rate_limiter=reverb.rate_limiters.MinSize(1),
      max_times_sampled=0,  # As often as it is drawn.
      signature=signature)


def make_server(tables: Sequence[reverb.Table], port: int | None,
                checkpoint_dir: str | None = None) -> reverb.Server:
  """Serves `tables` on `port`, or on a free one if that is None.

  `reverb.Client.checkpoint` writes the tables to `checkpoint_dir`, if any, from
  which the replay's newest unrolls are read back. Raises OSError if the port is
  taken or the server cannot be reached, UserError if the files are damaged.
  """
  port, claimed = ports.claim(port)
  held = contextlib.ExitStack()
  held.callback(claimed.close)
  try:
    if checkpoint_dir is None:
      # Reverb's own default, without the empty directory that it would leave.
      checkpointer = reverb.checkpointers.TempDirCheckpointer()
      os.rmdir(checkpointer.path)
    else:
      saved_tables.keep_only(checkpoint_dir, REPLAY)
      files.make_directory(checkpoint_dir)
      checkpointer = reverb.checkpointers.DefaultCheckpointer(
          held.enter_context(files.literal(checkpoint_dir)))
    server = reverb.Server(list(tables), port=port, checkpointer=checkpointer)
    # Calls without a deadline would wait for ever if the network is in the way.
    reverb_calls.server_info(
        reverb.Client(f'localhost:{port}'), _START_TIMEOUT_SECS)
  except (RuntimeError, tf.errors.OpError) as error:
    if checkpoint_dir is None:
      raise
    raise config_lib.UserError(
        f'the replay saved in {checkpoint_dir} is damaged ({error}); remove it '
        'to go on with an empty one') from error
  weakref.finalize(server, held.close)  # Port and path are held as long.
  return server


class UnrollWriter:
  """A writer that sends an actor's unrolls to the tables."""

  def __init__(self, address: str, spec: types.Unroll,
               tables: Sequence[str] = (QUEUE,),
               stamp: packing.Stamp = packing.NO_STAMP,
               replay_address: str | None = None,
               replay_item: ItemFn = lambda unroll: -1, num_kept: int = 1):
    """Connects to the queue's server at 'host:port'.

    Args:
      tables: names of the tables that take each unroll, in this order: one that
        may block comes last.
      replay_address: 'host:port' of the replay's server; None: the queue's.
      replay_item: chooses the unrolls of the replay's next item.
      num_kept: number of unrolls, of all environments, that it can choose from.

    Raises ConnectionError if a server does not answer, ConfigError if a table
    takes other unrolls than those of `spec`.
    """
    self._packing = packing.Packing(spec)
    self._stamp = stamp
    self._replay_item = replay_item
    tables_by_server = collections.defaultdict(list)
    for table in tables:
      server = (replay_address or address) if table == REPLAY else address
      tables_by_server[server].append(table)
    self._servers = {
        server: _ServerWriter(server, names, self._packing.signature,
                              num_kept if REPLAY in names else 1)
        for server, names in tables_by_server.items()}
    self._shared = self._servers.get(replay_address or '')
    self._last: list[np.ndarray] | None = None

  def write(self, unroll: packing.PackedUnroll) -> None:
    """Writes sender and config into an unroll, and sends a copy of the unroll.

    Raises ValueError if sizes are wrong.
    """
    columns = unroll.columns
    self._packing.put_stamp(columns, self._stamp)
    replayed = self._replay_item(unroll)
    for server in self._servers.values():
      server.write(columns, replayed)
    if self._shared is not None:
      self._last = [column.copy() for column in columns]

  def flush(self, max_pending: int = 0) -> None:
    """Waits until all but `max_pending` unrolls have arrived.

    Raises ConnectionError if a server does not answer.
    """
    for server in self._servers.values():
      server.flush(max_pending, self.refill)

  def refill(self) -> None:
    """Writes the last unroll again if a replay on another server is empty.

    Otherwise learner, full queue and actor would wait for each other. Raises
    ConnectionError as `flush` does.
    """
    if self._shared is not None and self._last is not None and (
        self._shared.is_empty(REPLAY)):
      self._shared.write(self._last, replayed=-1)
      self._shared.flush()


class _ServerWriter:
  """A writer for one server, whose tables share the data of each unroll."""

  def __init__(self, address: str, tables: Sequence[str],
               signature: Sequence[tf.TensorSpec], num_kept: int):
    self._client = reverb.Client(address)
    # Without an answer, what follows would wait for ever.
    _check_tables(reverb_calls.server_info(self._client), tables, signature)
    self._writer = self._client.trajectory_writer(num_keep_alive_refs=num_kept)
    for i in range(len(signature)):
      # An unroll for itself: neighbours are of other environments.
      self._writer.configure(
          (i,), num_keep_alive_refs=num_kept, max_chunk_length=1)
    self._tables = tables
    self._history: Sequence[Any] | None = None

  def write(self, columns: Sequence[np.ndarray], replayed: Item) -> None:
    """Sends an unroll's columns, [N] each; the replay gets item `replayed`."""
    self._writer.append(columns)
    if self._history is None:
      # Reverb makes this structure anew each time, of the same columns.
      self._history = self._writer.history
    for table in self._tables:
      chosen = replayed if table == REPLAY else -1
      if chosen is not None:
        trajectory = tuple(column[chosen] for column in self._history)
        self._writer.create_item(table, _NEW_PRIORITY, trajectory)

  def flush(self, max_pending: int = 0,
            on_wait: Callable[[], None] = lambda: None) -> None:
    reverb_calls.flush(self._client, self._writer,
                       max_pending * len(self._tables), on_wait)

  def is_empty(self, table: str) -> bool:
    return not reverb_calls.server_info(self._client)[table].current_size


def _check_tables(infos: Mapping[str, Any], tables: Sequence[str],
                  signature: Sequence[tf.TensorSpec]) -> None:
  """Raises ConfigError if a table is missing or differs from `signature`."""
  for table in tables:
    if table not in infos:
      raise config_lib.ConfigError(
          f'the learner has no table {table!r}; start it and its actors with '
          'the same config')
    wanted, made = (
        [spec.name.rpartition('/')[2] for spec in tf.nest.flatten(specs)]
        for specs in (infos[table].signature, signature))
    if wanted != made:
      raise config_lib.ConfigError(
          f'the learner wants unrolls of {", ".join(wanted)}, but this actor '
          f'makes them of {", ".join(made)}; start both with the same config')
