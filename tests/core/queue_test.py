"""The queue against a real Reverb server."""

import threading

import numpy as np
import pytest
import reverb
import tensorflow as tf

from impala_tf import config
from impala_tf.comms import packing
from impala_tf.core import queue as queue_lib
from tests.fixtures import programs
from tests.fixtures import unrolls


@pytest.fixture
def served():
  """Yields a queue of two unrolls, its server's address and a writer."""
  queue = queue_lib.make_queue(unrolls.spec(), 2)
  server = queue_lib.make_server([queue], None)
  address = f'localhost:{server.port}'
  yield queue, address, queue_lib.UnrollWriter(address, unrolls.spec())
  server.stop()


def _read(address):
  """Takes one unroll out of the queue."""
  sample, = reverb.Client(address).sample(
      queue_lib.QUEUE, emit_timesteps=False, unpack_as_table_signature=True)
  return tf.nest.map_structure(lambda t: t.numpy()[0], packing.Packing(
      unrolls.spec()).unpack([column[np.newaxis] for column in sample.data]))


def _start_to_flush(writer, full_queue):
  """Starts a thread that flushes; returns it once it waits for the queue."""
  flushing = threading.Thread(target=writer.flush, daemon=True)
  flushing.start()
  size = full_queue.info.max_size
  programs.wait_until(
      lambda: full_queue.info.current_size == size, 'a full queue')
  # Longer than one of the timeouts that `flush` waits in turn.
  flushing.join(timeout=1.5)
  assert flushing.is_alive() and full_queue.info.current_size == size
  return flushing


def _join(flushing):
  flushing.join(timeout=programs.DEADLINE_SECS)
  assert not flushing.is_alive()


def test_unrolls_come_out_whole_and_in_order(served):
  queue, address, writer = served
  for number in range(6):
    packed = unrolls.packed(unrolls.numbered(number))
    writer.write(packed)
    for column in packed.columns:  # Once written, they may be overwritten.
      column[...] = 0
    writer.flush()
    assert queue.info.current_size == 1
    unrolls.assert_equal(_read(address), unrolls.numbered(number))
    assert queue.info.current_size == 0  # Read once is read for good.


def _with_rewards(size, dtype):
  spec = unrolls.spec()
  return spec._replace(env_outputs=spec.env_outputs._replace(
      reward=tf.TensorSpec([size], dtype)))


@pytest.mark.parametrize('spec', [
    _with_rewards(unrolls.T, tf.float32),
    _with_rewards(unrolls.T + 1, tf.float64),
    unrolls.spec()._replace(core_state=())])
def test_unroll_of_another_shape_or_type_is_refused(served, spec):
  queue, _, writer = served
  unroll = tf.nest.map_structure(
      lambda field: np.zeros(field.shape, field.dtype.as_numpy_dtype), spec)
  with pytest.raises(ValueError, match='must have columns of'):
    writer.write(unrolls.packed(unroll, spec))
  assert queue.info.current_size == 0


def test_writer_of_other_unrolls_is_refused_as_it_connects(served):
  _, address, _ = served
  other = unrolls.spec()._replace(level_index=tf.TensorSpec((), tf.float64))
  with pytest.raises(config.ConfigError,
                     match='wants unrolls of .* but this actor .*float64'):
    queue_lib.UnrollWriter(address, other)


def test_writer_to_a_table_that_is_not_there_is_refused(served):
  _, address, _ = served
  with pytest.raises(config.ConfigError, match="no table 'replay'"):
    queue_lib.UnrollWriter(address, unrolls.spec(), (queue_lib.REPLAY,
                                                     queue_lib.QUEUE))


def test_taken_port_is_refused(served):
  _, address, _ = served
  port = int(address.rpartition(':')[2])
  queue = queue_lib.make_queue(unrolls.spec(), 2)
  with pytest.raises(OSError, match=f'port {port}.*choose another'):
    queue_lib.make_server([queue], port)


def _serve_replay(capacity, checkpoint_dir=None, queue_capacity=100):
  spec = unrolls.spec()
  table = queue_lib.make_replay(spec, capacity, memory_bytes=1 << 30)
  queue = queue_lib.make_queue(spec, queue_capacity)
  server = queue_lib.make_server([table, queue], None, checkpoint_dir)
  address = f'localhost:{server.port}'
  writer = queue_lib.UnrollWriter(
      address, spec, (queue_lib.REPLAY, queue_lib.QUEUE))
  return (table, queue), server, writer, reverb.Client(address)


def _sample(client, num_samples):
  """Samples the replay; returns the numbers of the unrolls."""
  samples = client.sample(queue_lib.REPLAY, num_samples, emit_timesteps=False,
                          unpack_as_table_signature=True)
  batches = (packing.Packing(unrolls.spec()).unpack(
      [column[np.newaxis] for column in sample.data]) for sample in samples)
  return [int(batch.policy_version[0]) for batch in batches]


def test_replay_is_sampled_uniformly_and_drops_its_oldest():
  (table, _), server, writer, client = _serve_replay(capacity=5)
  unrolls.write(writer, range(8))
  writer.flush()
  assert table.info.current_size == 5
  drawn = np.bincount(_sample(client, 500), minlength=8)
  assert not drawn[:3].any()
  # 100 each; the standard deviation is 9.
  np.testing.assert_allclose(drawn[3:], 100, atol=5 * 9)


def test_full_queue_blocks_a_writer_to_both():
  (table, queue), server, writer, _ = _serve_replay(5, queue_capacity=2)
  unrolls.write(writer, range(4))
  writer.flush(max_pending=2)  # Two in the queue, two on their way: no wait.
  # It may have been the replay alone that has taken what was flushed.
  flushing = _start_to_flush(writer, queue)
  for _ in range(2):
    _read(f'localhost:{server.port}')
  _join(flushing)
  assert table.info.current_size == 4


def test_replay_is_there_again_after_a_restart(tmp_path):
  _, server, writer, client = _serve_replay(10, str(tmp_path))
  unrolls.write(writer, range(3))
  writer.flush()
  client.checkpoint()
  unrolls.write(writer, [9])  # Not saved, hence lost.
  writer.flush()
  server.stop()
  _, server, _, client = _serve_replay(10, str(tmp_path))
  info = client.server_info()
  assert info['replay'].current_size == 3
  assert info['queue'].current_size == 0  # Its unrolls are in the replay.
  assert set(_sample(client, 50)) == {0, 1, 2}


def test_replay_in_a_directory_like_a_pattern_leaves_its_neighbour_alone(
    tmp_path):
  for name in 'try1', 'try[1]':
    _, server, writer, client = _serve_replay(10, str(tmp_path / name))
    for number in range(2):  # Only the last one stays.
      unrolls.write(writer, [number])
      writer.flush()
      client.checkpoint()
    server.stop()
  for name in 'try1', 'try[1]':
    assert len(list((tmp_path / name).iterdir())) == 1
    _, server, _, client = _serve_replay(10, str(tmp_path / name))
    assert client.server_info()['replay'].current_size == 2


def test_damaged_replay_is_an_error_of_the_user(tmp_path):
  _, server, writer, client = _serve_replay(10, str(tmp_path))
  unrolls.write(writer, [1])
  writer.flush()
  client.checkpoint()
  server.stop()
  chunks, = tmp_path.glob('*/chunks.tfrecord')
  content = chunks.read_bytes()
  chunks.write_bytes(content[:50] + b'altered' + content[57:])
  with pytest.raises(config.UserError, match='is damaged.*remove it'):
    _serve_replay(10, str(tmp_path))


@pytest.mark.parametrize('shape, size', [
    ([101, 72, 96, 3], '7.8'), ([21, 84, 84, 4], '1.4')])
def test_replay_larger_than_memory_is_refused(shape, size):
  """Colours are expected to be compressed less."""
  with pytest.raises(config.ConfigError, match=(
      f'unrolls is 10000, .* about {size} GiB.* 1.0 GiB of memory')):
    queue_lib.make_replay(tf.TensorSpec(shape, tf.uint8), 10_000, 1 << 30)


def test_shared_replay_that_came_back_empty_gets_the_last_unroll_again():
  """Else learner, queue and actor would wait for one another."""
  spec = unrolls.spec()
  queue = queue_lib.make_queue(spec, 1)
  server = queue_lib.make_server([queue], None)
  elsewhere = queue_lib.make_server(
      [queue_lib.make_replay(spec, 5, memory_bytes=1 << 30)], None)
  address = f'localhost:{elsewhere.port}'
  writer = queue_lib.UnrollWriter(
      f'localhost:{server.port}', spec, (queue_lib.REPLAY, queue_lib.QUEUE),
      replay_address=address)
  client = reverb.Client(address)
  unrolls.write(writer, range(2))
  flushing = _start_to_flush(writer, queue)
  client.reset(queue_lib.REPLAY)
  programs.wait_until(
      lambda: client.server_info()[queue_lib.REPLAY].current_size == 1, 'one')
  assert set(_sample(client, 3)) == {1}
  _read(f'localhost:{server.port}')
  _join(flushing)
