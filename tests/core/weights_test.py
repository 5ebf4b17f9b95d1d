"""Actors get the newest parameters, whole or not at all."""

import contextlib
import functools
import itertools
import os
import signal
import threading
import time

import numpy as np
import pytest
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.comms import parameter_memory
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from tests.fixtures import programs
from tests.fixtures import unrolls

_SHAPES = ((3, 2), (2,), ())


def _variables(value):
  return [tf.Variable(tf.fill(shape, float(value))) for shape in _SHAPES]


def _values(variables):
  return [v.numpy().tolist() for v in variables]


def _publisher(address, variables, frames_at=lambda version: 0,
               through=lambda table: [table.write]):
  """Makes a publisher; `through` maps the table to its destinations."""
  return weights.Publisher(
      weights.make_snapshot(variables), frames_at,
      through(weights.Table(address)))


def _background(memory, write_all=False):
  """Returns a `through` of threads that write to a memory and to the table."""
  return lambda table: weights.in_other_processes(table, memory, write_all)


@contextlib.contextmanager
def _serving(learners, memory=None, port=None, *tables):
  """Yields the address of a server by which the memory is found."""
  server = queue_lib.make_server(
      [*weights.make_tables(learners, memory), *tables], port)
  yield f'localhost:{server.port}'
  server.stop()


@pytest.fixture(name='ends')
def _ends():
  """Yields the learner's variables, the actor's, its fetcher, an address."""
  learners, actors = _variables(1), _variables(0)
  with _serving(learners) as address:
    yield learners, actors, weights.Fetcher(address, actors), address


_until = functools.partial(programs.wait_until, what='parameters')


def test_first_parameters_are_waited_for_as_long_as_the_caller_will(ends):
  learners, actors, fetcher, address = ends
  assert fetcher.fetch() is None
  assert _values(actors) == _values(_variables(0))
  causes = []

  def poll(cause):
    causes.append(cause)
    if len(causes) == 3:
      _publisher(address, learners).publish(3)

  assert fetcher.wait(poll) == 3
  assert causes == ['it has published no parameters yet'] * 3
  assert _values(actors) == _values(_variables(1))


@pytest.mark.parametrize('may_share', [True, False])
def test_parameters_travel_as_float32_to_variables_of_any_type(may_share):
  learners = [tf.Variable([1., 1 + 2**-10, 1 + 3 * 2**-8]),
              tf.Variable([0.1, 3.], dtype=tf.float64)]
  actors = [tf.Variable(tf.zeros([3], tf.bfloat16)),
            tf.Variable(tf.zeros([2], tf.float64))]
  memory = parameter_memory.make(5) if may_share else None
  with _serving(learners, memory) as address:
    _publisher(address, learners, through=_background(memory)).publish(1)
    weights.Fetcher(address, actors).wait(lambda cause: None)
  # To the nearest of 8 bits, and to the even one of two.
  np.testing.assert_array_equal(
      tf.cast(actors[0], tf.float32), [1., 1., 1 + 2**-6])
  assert actors[1].numpy().tolist() == [np.float32(0.1), 3.]


def test_newest_wins_and_stays(ends):
  learners, actors, fetcher, address = ends
  publisher = _publisher(address, learners)
  learners[0].assign([[1., 2.], [3., 4.], [5., 6.]])
  for version in (1, 2, 3):
    learners[1].assign([version, -version])
    publisher.publish(version)
  assert fetcher.fetch() == 3
  actors[2].assign(9.)  # A sign that nothing is fetched twice.
  assert fetcher.fetch() == 3
  assert _values(actors) == [[[1., 2.], [3., 4.], [5., 6.]], [3., -3.], 9.]


def test_learner_is_asked_at_the_first_of_so_many_calls(ends):
  learners, actors, _, address = ends
  publisher = _publisher(address, learners)
  fetcher = weights.Fetcher(address, actors, interval=3)
  assert fetcher.fetch() is None and fetcher.fetch() is None  # Asks on.
  fetched = []
  for version in range(1, 9):
    learners[2].assign(float(version))
    publisher.publish(version)
    fetched.append(fetcher.fetch())
    assert _values(actors)[2] == fetched[-1]
  assert fetched == [1, 1, 1, 4, 4, 4, 7, 7]


def test_background_publisher_drops_older_versions(ends):
  learners, actors, fetcher, address = ends
  publisher = _publisher(address, learners, through=_background(None))
  publisher.publish(20)
  learners[2].assign(20.)
  _until(lambda: fetcher.fetch() == 20)
  assert _values(actors)[2] == 1.  # As when it was published.
  # As by a thread that comes late.
  publisher.publish(19)
  learners[2].assign(21.)
  publisher.publish(21)
  versions = []

  def newest():
    versions.append(fetcher.fetch())
    return versions[-1] == 21

  _until(newest)
  assert 19 not in versions and _values(actors)[2] == 21.


@pytest.mark.parametrize('lag_updates', [0, 3])
def test_delayed_publisher_is_exactly_so_many_updates_late(ends, lag_updates):
  learners, actors, fetcher, address = ends
  delayed = _publisher(address, learners, through=lambda table: [
      weights.delayed(table.write, lag_updates)])
  for version in range(10, 20):
    learners[2].assign(float(version))
    delayed.publish(version)
    expected = max(10, version - lag_updates)
    assert fetcher.fetch() == expected == _values(actors)[2]


# Through the learner's memory.


class _Sharing:
  """A learner that shares its memory, with peers here and elsewhere.

  Attributes:
    now: time in seconds of the table.
    learners: the learner's variables.
    publisher: publishes them; version 0 is there already.
    here, elsewhere: fetchers, whose variables are `actors` and `remote_actors`.
  """

  def __init__(self, address, learners, memory):
    self.now = 0.
    self.learners = learners
    self.address = address
    self.publisher = _publisher(
        address, learners, lambda version: 10 * version, lambda table: [
            weights.NewestSender(memory.write).write,
            weights.NewestSender(
                weights.on_demand(table, lambda: self.now)).write])
    self.publisher.publish(0)
    self.actors, self.remote_actors = _variables(0), _variables(0)
    self.here = weights.Fetcher(address, self.actors)
    self.elsewhere = weights.Fetcher(
        address, self.remote_actors, may_share=False)

  def publish(self, version):
    self.learners[2].assign(float(version))
    self.publisher.publish(version)


@pytest.fixture(name='sharing')
def _sharing():
  """Makes a `_Sharing` whose table sees no time pass by itself."""
  learners, memory = _variables(1), parameter_memory.make(9)
  with _serving(learners, memory) as address:
    yield _Sharing(address, learners, memory)


def test_peers_here_get_each_update_at_once_and_leave_the_table_alone(sharing):
  sharing.learners[0].assign([[1., 2.], [3., 4.], [5., 6.]])
  for version in range(1, 30):
    sharing.publish(version)
    _until(lambda: sharing.here.fetch() == version)  # noqa: B023
    assert sharing.here.frames == 10 * version
    assert _values(sharing.actors) == [
        [[1., 2.], [3., 4.], [5., 6.]], [1., 1.], version]
  _until(lambda: sharing.elsewhere.fetch() is not None)
  assert sharing.elsewhere.fetch() == 0


def test_fetched_parameters_do_not_change_with_the_memory(sharing):
  sharing.publish(1)
  _until(lambda: sharing.here.fetch() == 1)
  sharing.publish(2)
  later = weights.Fetcher(sharing.address, sharing.remote_actors)
  _until(lambda: later.fetch() == 2)
  assert _values(sharing.actors)[2] == 1.


def test_peers_elsewhere_get_each_update_while_they_read(sharing):
  _until(lambda: sharing.elsewhere.fetch() == 0)
  version = 0

  def sees_that_it_was_read():
    nonlocal version
    sharing.now += 1.
    version += 1
    sharing.publish(version)
    _until(lambda: sharing.elsewhere.fetch() == version)
    sharing.publish(version + 1)  # At the same time.
    return sharing.elsewhere.fetch() == version + 1

  _until(sees_that_it_was_read)
  first = version + 2
  for version in range(first, first + 9):
    sharing.publish(version)
    _until(lambda: sharing.elsewhere.fetch() == version)  # noqa: B023
    assert sharing.elsewhere.frames == 10 * version


def test_table_gets_each_update_if_all_wait_for_it():
  learners, memory = _variables(1), parameter_memory.make(9)
  with _serving(learners, memory) as address:
    publisher = _publisher(
        address, learners, through=_background(memory, write_all=True))
    fetcher = weights.Fetcher(address, _variables(0), may_share=False)
    for version in range(5):
      publisher.publish(version)
      _until(lambda: fetcher.fetch() == version)  # noqa: B023


@pytest.mark.slow
def test_updates_do_not_wait_for_a_server_that_was_stopped():
  with unrolls.server_process() as (process, address):
    variables = unrolls.variables()
    memory = parameter_memory.make(weights.num_parameters(variables))
    publisher = _publisher(
        address, variables, through=_background(memory, write_all=True))
    publisher.publish(0)
    reader = parameter_memory.find([memory.table_name])
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)  # Until all of its threads stand.
    start = time.monotonic()
    for version in range(1, 4):
      publisher.publish(version)
      _until(lambda: reader.is_there() and reader.read(lambda parameters: None))
    assert time.monotonic() - start < 30  # It would never answer.
    # A thread that waited for it would abort this process at its exit.
    process.send_signal(signal.SIGCONT)
    fetcher = weights.Fetcher(address, unrolls.variables(), may_share=False)
    _until(lambda: fetcher.fetch() == 3)


@pytest.mark.parametrize('may_share', [True, False])
def test_parameters_of_another_agent_are_refused_whole(sharing, may_share):
  _until(lambda: sharing.elsewhere.fetch() == 0)
  small = [tf.Variable([0., 0.])]
  fetcher = weights.Fetcher(sharing.address, small, may_share=may_share)
  with pytest.raises(config_lib.UserError, match='9 parameters, but this'):
    fetcher.fetch()
  assert _values(small) == [[0., 0.]]


@pytest.mark.parametrize('may_share', [True, False])
def test_new_learner_at_the_port_is_followed(may_share):
  """Even if it has published as often as the old one had."""
  learners, clock = _variables(1), itertools.count(0, 3600)
  old, new = (parameter_memory.make(9) for _ in range(2))
  with _serving(learners, old) as address:
    fetcher = weights.Fetcher(address, _variables(0), may_share=may_share,
                              clock=clock.__next__)
    _publisher(address, learners, through=_background(old)).publish(5)
    _until(lambda: fetcher.fetch() == 5)
    assert fetcher.learner == old.table_name
  with _serving(learners, new, int(address.rpartition(':')[2])):
    _publisher(address, learners, through=_background(new)).publish(3)

    def is_followed():
      with contextlib.suppress(ConnectionError):  # Of the old one's server.
        return fetcher.fetch() == 3

    _until(is_followed)
    assert fetcher.learner == new.table_name


def test_server_of_another_run_is_noticed_beside_the_memory():
  learners, memory = _variables(1), parameter_memory.make(9)
  now, runs = 0., [reverb.Table.queue(f'config-{i}', 1) for i in range(2)]
  with _serving(learners, memory, None, runs[0]) as address:
    _publisher(address, learners, through=_background(memory)).publish(5)
    fetcher = weights.Fetcher(
        address, _variables(0), 'config-0', clock=lambda: now)
    _until(lambda: fetcher.fetch() == 5)
  with _serving(learners, memory, int(address.rpartition(':')[2]), runs[1]):
    now = 0.9
    assert fetcher.fetch() == 5  # The server is asked now and then only.
    now = 1.1

    def is_noticed():
      try:
        return fetcher.fetch() is None
      except ConnectionError as error:  # At first of the old server.
        return 'of another config now' in str(error)

    _until(is_noticed)


# In a thread.


class _Slow:
  """A function that notes what it is given when it is let."""

  def __init__(self):
    self.sent = []
    self.started = threading.Semaphore(0)
    self.may_end = threading.Semaphore(0)
    self.error = None

  def __call__(self, version, snapshot):
    self.started.release()
    assert self.may_end.acquire(timeout=programs.DEADLINE_SECS)
    if self.error:
      raise self.error
    self.sent.append((version, snapshot))


def test_only_the_newest_waits():
  slow = _Slow()
  sender = weights.NewestSender(slow)
  sender.write(1, 10)
  assert slow.started.acquire(timeout=programs.DEADLINE_SECS)
  for version in (2, 3, 4):
    sender.write(version, 10 * version)  # None of these waits.
  slow.may_end.release(2)
  programs.wait_until(lambda: len(slow.sent) == 2, 'two snapshots')
  assert slow.sent == [(1, 10), (4, 40)]


def test_failure_is_raised_at_the_next_call():
  slow = _Slow()
  sender = weights.NewestSender(slow)
  slow.error = OSError('gone')
  slow.may_end.release()
  with pytest.raises(RuntimeError, match='publishing the parameters') as raised:
    # Returns None until it fails.
    programs.wait_until(lambda: sender.write(1, 10), 'an error')
  assert raised.value.__cause__ is slow.error
