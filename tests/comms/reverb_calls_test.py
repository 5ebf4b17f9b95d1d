"""Calls wait for a server as long as it lives, and no longer."""

import time
from unittest import mock

import pytest
import reverb
import tensorflow as tf

from impala_tf.comms import reverb_calls
from impala_tf.core import queue as queue_lib
from tests.fixtures import unrolls


def test_item_is_not_waited_for_without_end(monkeypatch):
  server = reverb.Server([reverb_calls.newest_item_table(
      'x', tf.TensorSpec([], tf.int32))])
  monkeypatch.setattr(reverb_calls, '_PROBE_TIMEOUT_SECS', 0.5)
  with pytest.raises(ConnectionError, match='does not answer .*TimeoutError'):
    reverb_calls.newest_item(reverb.Client(f'localhost:{server.port}'), 'x')
  server.stop()


@pytest.mark.parametrize('error', [RuntimeError, IndexError])
def test_tables_that_a_full_disk_does_not_take_are_an_os_error(error):
  # Reverb's errors: a file that may not grow, and no space left.
  client = mock.Mock(**{'checkpoint.side_effect': error('no room')})
  with pytest.raises(OSError, match='could not be saved: no room'):
    reverb_calls.save(client)


@pytest.mark.slow
def test_flush_ends_with_the_server():
  with unrolls.server_process() as (process, address):
    client = reverb.Client(address)
    assert queue_lib.QUEUE in reverb_calls.server_info(client)
    writer = client.trajectory_writer(num_keep_alive_refs=1)
    process.kill()
    process.wait()
    writer.append(unrolls.columns(unrolls.numbered(1)))
    writer.create_item(
        queue_lib.QUEUE, priority=1.0,
        trajectory=tuple(column[-1] for column in writer.history))
    start = time.monotonic()
    with pytest.raises(ConnectionError, match='does not answer'):
      reverb_calls.flush(client, writer, probe_secs=2)
    assert time.monotonic() - start < 20
