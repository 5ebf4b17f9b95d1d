"""Reverb's queue and replay, which take unrolls from actors to the learner.

One unroll is one Reverb step (one `append` of the whole structure) and one item
in each table; both items share its data. That costs a tenth of appending step
by step (15 to 20 against 130 to 180 microseconds of the actor's CPU time for
each agent step). The queue gives back-pressure: a full
table leaves the insertions of a writer unconfirmed, and `flush` waits for them.
The replay never blocks anybody: it drops its oldest unroll for a new one, and
can be sampled from its first on.
"""

import collections
from typing import Any, Mapping, Optional, Sequence, Union
import weakref

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.processes import ports
from impala_tf.transport import packing
from impala_tf.transport import reverb_calls
from impala_tf.transport import saved_tables

QUEUE = 'queue'
REPLAY = 'replay'

# Reverb compresses all it holds. Atari's frames become 17 times smaller and
# those of other games less so; numbers hardly at all.
_PIXEL_COMPRESSION = 4


def make_queue(spec: types.Unroll, capacity: int) -> reverb.Table:
  """Makes the queue: first in, first out, each unroll read once."""
  return reverb.Table.queue(QUEUE, capacity,
                            signature=packing.Packing(spec).signature)


def make_replay(spec: types.Unroll, capacity: int,
                memory_bytes: int) -> reverb.Table:
  """Makes the replay (table D.3 of the paper).

  Unrolls are sampled uniformly; the oldest make room for the newest.

  Args:
    spec: shapes and dtypes of one unroll.
    capacity: unrolls that it holds.
    memory_bytes: memory of the machine.

  Raises:
    ConfigError: where so many unrolls would not fit.
  """
  unroll_bytes = sum(
      field.shape.num_elements() * field.dtype.size /
      (_PIXEL_COMPRESSION if field.dtype == tf.uint8 else 1)
      for field in tf.nest.flatten(spec))
  if capacity * unroll_bytes > memory_bytes:
    gib = 1 << 30
    raise config_lib.ConfigError(
        f'ReplayConfig.capacity_unrolls is {capacity}, which takes about '
        f'{capacity * unroll_bytes / gib:.1f} GiB, but there are '
        f'{memory_bytes / gib:.1f} GiB of memory; use at most '
        f'{int(memory_bytes / unroll_bytes / 2)}')
  return reverb.Table(
      name=REPLAY,
      sampler=reverb.selectors.Uniform(),
      remover=reverb.selectors.Fifo(),
      max_size=capacity,
      # Any more, and the learner would wait for unrolls that a full queue, for
      # which the learner has no time, keeps away.
      rate_limiter=reverb.rate_limiters.MinSize(1),
      max_times_sampled=0,  # As often as it is drawn.
      signature=packing.Packing(spec).signature)


def make_server(tables: Sequence[reverb.Table], port: Optional[int],
                checkpoint_dir: Optional[str] = None) -> reverb.Server:
  """Serves `tables` on `port`, or on a free one.

  Args:
    tables: tables that the server holds.
    port: port on which the server listens; None for a free one.
    checkpoint_dir: directory to which `reverb.Client.checkpoint` writes the
      tables' unrolls, and from which the replay's newest are read back; None
      for none.

  Raises:
    OSError: where the port is taken.
    UserError: where what is in `checkpoint_dir` is damaged.
  """
  port, claimed = ports.claim(port)
  checkpointer = None
  try:
    if checkpoint_dir is not None:
      saved_tables.keep_only(checkpoint_dir, REPLAY)
      checkpointer = reverb.checkpointers.DefaultCheckpointer(checkpoint_dir)
    server = reverb.Server(list(tables), port=port, checkpointer=checkpointer)
  except (RuntimeError, tf.errors.OpError) as error:
    if checkpoint_dir is None:
      raise
    raise config_lib.UserError(
        f'the replay saved in {checkpoint_dir} is damaged ({error}); remove it '
        'to go on with an empty one') from error
  weakref.finalize(server, claimed.close)  # It lives as long.
  return server


class UnrollWriter:
  """A writer that sends an actor's unrolls to the tables."""

  def __init__(self, address: str, spec: types.Unroll,
               tables: Sequence[str] = (QUEUE,), sender: int = 0,
               fingerprint: int = 0, replay_address: Optional[str] = None):
    """Connects.

    Args:
      address: 'host:port' of the queue's server.
      spec: shapes and dtypes of one unroll, as the tables were made for.
      tables: names of the tables that take each unroll, in this order: one that
        may block comes last.
      sender: task of the actor, with which unrolls are stamped.
      fingerprint: fingerprint of the config, with which unrolls are stamped.
      replay_address: 'host:port' of the replay's server; None: the queue's.

    Raises:
      ConnectionError: where a server does not answer.
      ConfigError: where a table takes other unrolls.
    """
    self._packing = packing.Packing(spec)
    self._stamp = packing.Stamp(np.int64(sender), np.int64(fingerprint))
    tables_by_server = collections.defaultdict(list)
    for table in tables:
      is_elsewhere = replay_address is not None and table == REPLAY
      server = replay_address if is_elsewhere else address
      tables_by_server[server].append(table)
    self._servers = [
        _ServerWriter(server, names, self._packing.signature)
        for server, names in tables_by_server.items()]

  def write(self, unroll: Union[types.Unroll, packing.PackedUnroll]) -> None:
    """Sends one unroll; copies it, so buffers may be used again.

    Args:
      unroll: NumPy arrays without a batch dimension; packed, it is stamped in
        place, otherwise checked and packed first.

    Raises:
      ValueError: where shapes or dtypes are not those of the spec.
    """
    if isinstance(unroll, packing.PackedUnroll):
      columns = unroll.columns
      self._packing.put_stamp(columns, self._stamp)
    else:
      columns = self._packing.pack(unroll, self._stamp)
    for server in self._servers:
      server.write(columns)

  def flush(self, max_pending: int = 0) -> None:
    """Waits until the tables have taken all, or nearly all, that was written.

    Args:
      max_pending: so many unrolls may still be on their way.

    Raises:
      ConnectionError: where a server does not answer any more.
    """
    for server in self._servers:
      server.flush(max_pending)


class _ServerWriter:
  """A writer for the tables of one server, which share each unroll's data."""

  def __init__(self, address: str, tables: Sequence[str],
               signature: Sequence[tf.TensorSpec]):
    self._client = reverb.Client(address)
    # Without an answer, what follows would wait for ever.
    _check_tables(reverb_calls.server_info(self._client), tables, signature)
    self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)
    self._tables = tables
    self._history = None

  def write(self, columns: Sequence[np.ndarray]) -> None:
    """Sends one unroll, packed, as an item of each table."""
    self._writer.append(columns)
    if self._history is None:
      # Reverb makes this structure anew each time, of the same columns.
      self._history = self._writer.history
    trajectory = tuple(column[-1] for column in self._history)
    for table in self._tables:
      self._writer.create_item(table, priority=1.0, trajectory=trajectory)

  def flush(self, max_pending: int) -> None:
    """Waits until all but so many unrolls have arrived."""
    reverb_calls.flush(self._client, self._writer,
                       max_pending * len(self._tables))


def _check_tables(infos: Mapping[str, Any], tables: Sequence[str],
                  signature: Sequence[tf.TensorSpec]) -> None:
  """Raises ConfigError where a table does not take these columns."""
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
