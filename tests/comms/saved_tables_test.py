"""One table is read back from a server's checkpoint, whatever the others."""

import pathlib

import numpy as np
import pytest
import reverb
import tensorflow as tf

from impala_tf.comms import saved_tables


def _table(name, size=None, max_size=100):
  return reverb.Table(
      name=name, sampler=reverb.selectors.Fifo(),
      remover=reverb.selectors.Fifo(), max_size=max_size,
      rate_limiter=reverb.rate_limiters.MinSize(1), max_times_sampled=0,
      signature=(tf.TensorSpec([size], tf.float32, 'x'),))


def _server(path, *tables):
  return reverb.Server(
      list(tables),
      checkpointer=reverb.checkpointers.DefaultCheckpointer(str(path)))


def _save(path, numbers):
  """Writes a checkpoint of two tables with an item for each number in both."""
  server = _server(path, _table('kept', 2), _table('other', 2, max_size=3))
  client = server.localhost_client()
  with client.trajectory_writer(num_keep_alive_refs=1) as writer:
    for number in numbers:
      writer.append((np.full(2, number, np.float32),))
      for name in 'kept', 'other':
        writer.create_item(name, 1., (writer.history[0][-1],))
  client.checkpoint()
  server.stop()


def test_one_table_is_read_back_into_a_server_with_others(tmp_path):
  _save(tmp_path, [1, 2])
  _save(tmp_path, [3, 4, 5])  # On top of the first.
  with pytest.raises(ValueError, match="load table 'other'"):
    _server(tmp_path, _table('kept', 2), _table('renamed'))
  saved_tables.keep_only(str(tmp_path), 'kept')
  saved_tables.keep_only(str(tmp_path), 'kept')  # Nothing more to do.
  server = _server(tmp_path, _table('kept', 2), _table('renamed'),
                   _table('other', 7, max_size=9))
  infos = server.localhost_client().server_info()
  assert infos['kept'].current_size == 5
  assert infos['renamed'].current_size == infos['other'].current_size == 0
  assert infos['other'].max_size == 9
  assert infos['other'].signature[0].shape == [7]


def test_directory_without_a_whole_checkpoint_is_left_alone(tmp_path):
  saved_tables.keep_only(str(tmp_path / 'none'), 'kept')
  assert not (tmp_path / 'none').exists()
  (tmp_path / '2026').mkdir()
  (tmp_path / '2026' / 'tables.tfrecord').write_bytes(b'half')
  saved_tables.keep_only(str(tmp_path), 'kept')
  assert (tmp_path / '2026' / 'tables.tfrecord').read_bytes() == b'half'


def test_damage_is_an_error_and_nothing_is_lost(tmp_path):
  _save(tmp_path, [1])
  path, = pathlib.Path(tmp_path).glob('*/items.tfrecord')
  path.write_bytes(b'x' * 50)
  with pytest.raises(tf.errors.OpError):
    saved_tables.keep_only(str(tmp_path), 'kept')
  assert path.read_bytes() == b'x' * 50
