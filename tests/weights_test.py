"""Actors get the newest parameters, whole or not at all."""

import time

from impala_tf import replay
from impala_tf import weights
import numpy as np
import pytest
import tensorflow as tf

_SHAPES = ((3, 2), (2,), ())


def _variables(value):
  return [tf.Variable(tf.fill(shape, float(value))) for shape in _SHAPES]


def _values(variables):
  return [v.numpy().tolist() for v in variables]


@pytest.fixture(name='ends')
def _ends():
  """The learner's variables and publisher, the actor's and fetcher."""
  learners, actors = _variables(1), _variables(0)
  server = replay.make_server([weights.make_table(learners)], port=None)
  address = f'localhost:{server.port}'
  yield (learners, weights.Publisher(address, learners), actors,
         weights.Fetcher(address, actors))
  server.stop()


def _until(condition):
  """Polls until it holds; fails after half a minute."""
  deadline = time.monotonic() + 30.
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.01)


def test_nothing_is_fetched_before_anything_is_published(ends):
  _, _, actors, fetcher = ends
  assert fetcher.fetch() is None
  assert _values(actors) == _values(_variables(0))


def test_parameters_arrive_in_their_shapes(ends):
  learners, publisher, actors, fetcher = ends
  learners[0].assign([[1., 2.], [3., 4.], [5., 6.]])
  learners[2].assign(7.)
  publisher.publish(5, publisher.snapshot())
  assert fetcher.fetch() == 5
  assert _values(actors) == [[[1., 2.], [3., 4.], [5., 6.]], [1., 1.], 7.]


def test_newest_wins_and_stays(ends):
  learners, publisher, actors, fetcher = ends
  for version in (1, 2, 3):
    learners[1].assign([version, -version])
    publisher.publish(version, publisher.snapshot())
  assert fetcher.fetch() == 3
  actors[2].assign(9.)  # A sign that nothing is fetched twice.
  assert fetcher.fetch() == 3
  assert _values(actors)[1:] == [[3., -3.], 9.]


def test_snapshot_is_not_changed_by_the_next_update(ends):
  learners, publisher, _, _ = ends
  snapshot = publisher.snapshot()
  learners[1].assign([5., 5.])
  np.testing.assert_array_equal(snapshot, np.ones(9))


def test_background_publisher_ends_with_the_newest(ends):
  learners, publisher, actors, fetcher = ends
  background = weights.BackgroundPublisher(publisher)
  for version in range(1, 21):
    learners[2].assign(float(version))
    background.publish(version)
  _until(lambda: fetcher.fetch() == 20)
  assert _values(actors)[2] == 20.


def test_parameters_of_another_agent_are_refused_whole():
  learners = _variables(1)
  server = replay.make_server([weights.make_table(learners)], port=None)
  address = f'localhost:{server.port}'
  publisher = weights.Publisher(address, learners)
  publisher.publish(1, publisher.snapshot())
  small = [tf.Variable([0., 0.])]
  fetcher = weights.Fetcher(address, small)
  with pytest.raises(ValueError, match='9 parameters, but this agent has 2'):
    fetcher.fetch()
  assert _values(small) == [[0., 0.]]


def test_a_server_that_is_gone_is_said_and_not_waited_for():
  learners = _variables(1)
  server = replay.make_server([weights.make_table(learners)], port=None)
  fetcher = weights.Fetcher(f'localhost:{server.port}', learners)
  server.stop()
  with pytest.raises(ConnectionError, match='does not answer'):
    fetcher.fetch()
