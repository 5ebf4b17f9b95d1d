"""Removal of tables from Reverb's checkpoints.

A Reverb server reads back all tables that it has written, with their sizes and
signatures. After a change of the config only the replay may keep these.
"""

import os
from typing import Callable

from reverb.cc import schema_pb2
from reverb.cc.checkpointing import checkpoint_pb2
import tensorflow as tf

_COMPRESSION = 'ZLIB'
_DONE = 'DONE'  # The file that Reverb writes last.


def keep_only(checkpoint_dir: str, table: str) -> None:
  """Removes all tables but one from the newest checkpoint in a directory.

  The directory is that of a `reverb.checkpointers.DefaultCheckpointer`, and
  need not exist. Even after an interruption, the checkpoint can still be read.
  Raises OpError if the checkpoint is damaged.
  """
  gfile = tf.io.gfile
  if not gfile.exists(checkpoint_dir):
    return
  # Their names are times, the newest last.
  whole = [path for path in (os.path.join(checkpoint_dir, name.rstrip('/'))
                             for name in sorted(gfile.listdir(checkpoint_dir)))
           if gfile.exists(os.path.join(path, _DONE))]
  if not whole:
    return
  # Items first: an item without its table would be damage.
  _filter(os.path.join(whole[-1], 'items.tfrecord'), lambda record: (
      schema_pb2.PrioritizedItem.FromString(record).table == table))
  _filter(os.path.join(whole[-1], 'tables.tfrecord'), lambda record: (
      checkpoint_pb2.PriorityTableCheckpoint.FromString(record).table_name
      == table))


def _filter(path: str, is_wanted: Callable[[bytes], bool]) -> None:
  """Rewrites a TFRecord file with only the records that `is_wanted` accepts."""
  records = [record.numpy() for record in tf.data.TFRecordDataset(
      path, compression_type=_COMPRESSION)]
  with tf.io.TFRecordWriter(f'{path}.new', _COMPRESSION) as writer:
    for record in filter(is_wanted, records):
      writer.write(record)
  tf.io.gfile.rename(f'{path}.new', path, overwrite=True)
