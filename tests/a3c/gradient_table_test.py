"""The table of gradients, in a real Reverb server."""

import threading

import numpy as np
import pytest
import reverb

from impala_tf.a3c import gradient_table
from impala_tf.a3c import links
from impala_tf.a3c import store
from impala_tf.comms import reverb_calls
from impala_tf.core import queue as queue_lib

_SIZE = 5


class _Fetcher:
  frames = 30

  def fetch(self):
    return 7


def _contribution(number, name='loss'):
  return links.Contribution(
      np.full(_SIZE, number, np.float32), worker=f'worker {number}',
      slot=number % 3, version=number, num_frames=20,
      metrics={'gradient_norm': 0.1 * number, name: 1 / 3},
      episode={'episode_return': -1., 'episode_steps': 9} if number % 2 else {})


@pytest.fixture(name='server')
def _server():
  server = queue_lib.make_server([gradient_table.make_table(_SIZE)], None)
  yield server
  server.stop()


def _address(server):
  return f'localhost:{server.port}'


def _same(one, other):
  np.testing.assert_array_equal(one.gradient, other.gradient)
  return one._replace(gradient=None) == other._replace(gradient=None)


def test_contributions_arrive_whole_and_in_their_order(server):
  """Their metrics have texts of any length."""
  link = gradient_table.TableLink(_address(server), _Fetcher())
  assert link.pull() == (30, 7, 0)
  sent = [_contribution(i, 'x' * (1 + 7 * i)) for i in range(8)]
  for contribution in sent:
    link.push(contribution)
  arrived = gradient_table.contributions(_address(server))
  for contribution in sent:
    assert _same(next(arrived), contribution)


@pytest.mark.slow
def test_gradient_that_is_not_finite_arrives_so(server):
  link = gradient_table.TableLink(_address(server), _Fetcher())
  link.push(_contribution(0)._replace(
      gradient=np.full(_SIZE, np.nan, np.float32),
      metrics={'gradient_norm': float('nan')}))
  arrived = next(gradient_table.contributions(_address(server)))
  assert np.isnan(arrived.gradient).all()
  assert np.isnan(arrived.metrics['gradient_norm'])


@pytest.mark.slow
def test_full_queue_makes_workers_wait_for_the_learner(server):
  link = gradient_table.TableLink(_address(server), _Fetcher())
  for number in range(8):
    link.push(_contribution(number))
  ninth = threading.Thread(
      target=link.push, args=[_contribution(8)], daemon=True)
  ninth.start()
  ninth.join(timeout=2.)  # Longer than one deadline of a flush.
  assert ninth.is_alive()
  client = reverb.Client(_address(server))
  assert reverb_calls.server_info(client)['gradients'].current_size == 8
  arrived = gradient_table.contributions(_address(server))
  assert [next(arrived).version for _ in range(9)] == list(range(9))
  ninth.join(timeout=60.)
  assert not ninth.is_alive()


def test_lost_learner_is_noticed(server, monkeypatch):
  link = gradient_table.TableLink(_address(server), _Fetcher())
  link.push(_contribution(0))
  server.stop()
  monkeypatch.setattr(reverb_calls, '_PROBE_TIMEOUT_SECS', 1)
  with pytest.raises(ConnectionError):
    link.push(_contribution(1))


def test_too_many_metrics_are_refused(server):
  link = gradient_table.TableLink(_address(server), _Fetcher())
  with pytest.raises(ValueError, match='have the loss return fewer'):
    link.push(_contribution(0, 'x' * 2048))


class _Records:
  """A store that refuses what a real one has no room for."""
  counts = store.Counts(10**9, 10**9, 0)

  def push(self, *arguments):
    del arguments

  def add_frames(self, num_frames, target_interval_frames, record):
    del num_frames, target_interval_frames
    store.encode(record, store.RECORD_BYTES - 8)


@pytest.mark.slow
def test_what_fits_into_the_queue_fits_into_the_learners_records(server):
  """The learner would end with an error whose cause is a worker's."""
  link = gradient_table.TableLink(_address(server), _Fetcher())
  apply = links.Applier(_Records(), None, links.Settings(
      1 / 3e5, annealed=True, total_frames=3 * 10**9,
      target_interval_frames=1))
  taken = gradient_table.contributions(_address(server))
  length = 1
  with pytest.raises(ValueError, match='have the loss return fewer'):
    while True:
      link.push(_contribution(0, 'x' * length))
      apply(next(taken))
      length += 100 if length < 1_500 else 5
  assert length > 1_500
