"""Priorities on a real server, and weights by the papers' formula."""

import numpy as np
import pytest
import reverb
import tensorflow as tf

from impala_tf import types
from impala_tf.core import queue as queue_lib
from impala_tf.replay import priorities
from impala_tf.runtime import interfaces
from tests.fixtures import programs
from tests.fixtures import unrolls


@pytest.mark.parametrize('beta', [0., .5, 1.])
def test_weights_undo_the_sampling_and_raise_no_update(beta):
  probabilities, size = np.array([.5, .25, .05, .2]), 40
  expected = (1 / (size * probabilities))**beta
  np.testing.assert_allclose(
      priorities.weights(
          tf.constant(probabilities, tf.float64), tf.fill([4], size), beta),
      expected / expected.max(), rtol=1e-6)


def _serve():
  """Starts the server of a replay; returns it and its address."""
  server = queue_lib.make_server([queue_lib.make_replay(
      unrolls.spec(), 10, memory_bytes=1 << 30, priority_exponent=.5)], None)
  return server, f'localhost:{server.port}'


@pytest.fixture(name='served')
def _served():
  """Returns a callback, and a client of a replay of three."""
  server, address = _serve()
  writer = queue_lib.UnrollWriter(address, unrolls.spec(), (queue_lib.REPLAY,))
  unrolls.write(writer, range(3))
  writer.flush()
  yield (priorities.Prioritiser(address, queue_lib.REPLAY),
         reverb.Client(address))
  server.stop()


def _probabilities(client):
  """Samples until all three were seen; returns {key: probability}."""
  found = {}
  for sample in client.sample(queue_lib.REPLAY, 500, emit_timesteps=False):
    found[sample.info.key] = sample.info.probability
  return found


def _update(keys, losses):
  """Makes what is needed of an update by a fresh and some replayed unrolls."""
  origin = types.Origin(
      tf.constant([False] + [True] * len(keys)),
      keys=tf.constant([0, *keys], tf.uint64))
  return interfaces.Update(
      1, 1, {'loss/total': 1., f'unroll/{priorities.METRIC}':
             np.float32(losses)}, types.Unroll((), (), (), (), (), origin),
      np.zeros(len(losses)), wait_secs=0.)


def test_replay_is_sampled_by_the_critics_losses(served):
  prioritiser, client = served
  before = _probabilities(client)
  assert len(before) == 3
  np.testing.assert_allclose(list(before.values()), 1 / 3)
  keys = sorted(before)
  # Losses by their running mean, 2 and then 2.02, of two of three unrolls. The
  # first loss is that of a fresh unroll.
  for losses, mean in ([99., 1., 3.], 2.), ([99., 2., 6.], 2.02):
    update = _update(keys[:2], losses)
    prioritiser.after_update(update)
    assert set(update.metrics) == {'loss/total'}
    wanted = np.array([*np.array(losses[1:]) / mean + .01, 1.])**.5
    programs.wait_until(lambda wanted=wanted: np.allclose(
        [_probabilities(client).get(key) for key in keys],
        wanted / wanted.sum(), rtol=1e-6), 'new priorities')


def test_losses_that_are_not_finite_and_items_that_are_gone_change_nothing(
    served):
  prioritiser, client = served
  keys = sorted(_probabilities(client))
  prioritiser.after_update(_update(keys, [1., 1., np.nan, 8.]))
  prioritiser.after_update(_update([12345], [1., 7.]))
  # All the same, sent after those.
  prioritiser.after_update(_update(keys, [1., 3., 3., 3.]))
  assert set(_probabilities(client)) == set(keys)
  np.testing.assert_allclose(list(_probabilities(client).values()), 1 / 3)


def test_a_server_that_has_died_holds_no_update_up():
  server, address = _serve()
  prioritiser = priorities.Prioritiser(address, queue_lib.REPLAY)
  server.stop()
  for _ in range(5):
    prioritiser.after_update(_update([1], [1., 1.]))
