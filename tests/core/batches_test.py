"""Batches from a real queue: order, layout, and how far is read ahead."""

from concurrent import futures
import random
import threading
import time

import numpy as np
import pytest
import reverb
import tensorflow as tf

from impala_tf import types
from impala_tf.comms import packing
from impala_tf.comms import sampling
from impala_tf.comms import unroll_filter
from impala_tf.core import batches as batches_lib
from impala_tf.core import loop
from impala_tf.core import queue as queue_lib
from impala_tf.replay import episodes
from impala_tf.replay import sources
from impala_tf.runtime import control as control_lib
from tests.fixtures import programs
from tests.fixtures import unrolls

pytestmark = pytest.mark.usefixtures('servers_stay')

B = 2


@pytest.fixture
def served():
  """Returns a large queue, a writer and a reader of batches of two."""
  queue, address = _serve_queue()
  writer = queue_lib.UnrollWriter(address, unrolls.spec())
  return queue, writer, _reader(address)


def _serve(*tables):
  return f'localhost:{queue_lib.make_server(tables, None).port}'


def _serve_queue():
  """Returns a large queue and its server's address."""
  queue = queue_lib.make_queue(unrolls.spec(), 128)
  return queue, _serve(queue)


def _reader(address, num_unrolls=B, replay=None, in_order=True, fingerprint=0,
            refusals=None, agent=None, first_version=None):
  """Makes a reader of a queue's batches, of unrolls that meet conditions."""
  packed = packing.Packing(unrolls.spec())
  is_taken = unroll_filter.refusing(packed, fingerprint, refusals, agent,
                                    must_be_finite=first_version is None)
  if first_version is not None:
    is_taken = unroll_filter.of_one_version(
        packed, is_taken, first_version, num_unrolls, refusals)
  return batches_lib.BatchReader(batches_lib.make_batches(
      sampling.Source(address, queue_lib.QUEUE, num_unrolls, in_order),
      packed, is_taken, replay),
      refusals=refusals if isinstance(refusals, unroll_filter.Refusals)
      else None)


def _replayed(address, num_unrolls, kind=sources.UniformReplay, *arguments,
              fingerprint=0):
  """Makes the function that adds the replayed part of batches."""
  return kind(sampling.Source(address, queue_lib.REPLAY, num_unrolls),
              packing.Packing(unrolls.spec()), fingerprint, *arguments).join


def _stamp(sender, fingerprint=0, agent=0):
  return packing.Stamp(*map(np.int64, (sender, fingerprint, agent)))


def _write(writer, numbers, make=unrolls.numbered):
  unrolls.write(writer, numbers, make)
  writer.flush()


class _Refusals:
  """A stand-in for `unroll_filter.Refusals` that keeps its arguments."""

  def __init__(self):
    self.seen = []

  def add(self, sender, reason):
    self.seen.append((sender, reason))


def _next(reader):
  """Returns the next batch; gives up after the deadline."""
  deadline = time.monotonic() + programs.DEADLINE_SECS
  unroll = next(loop.read(reader, control_lib.LoopControl(
      lambda: time.monotonic() > deadline)), None)
  assert unroll is not None, 'no batch came'
  return unroll


def _next_until(reader, should_stop):
  """Calls `reader.next` in a thread, so that it may hang."""
  returned = []
  thread = threading.Thread(
      target=lambda: returned.append(next(loop.read(
          reader, control_lib.LoopControl(should_stop)), None)), daemon=True)
  thread.start()
  thread.join(programs.DEADLINE_SECS)
  assert returned, 'it hangs'
  return returned[0]


def _stacked(numbers):
  """Makes the batch that unrolls should become: time first, then batch."""
  several = [unrolls.numbered(n) for n in numbers]

  def stack(axis, field):
    return tf.nest.map_structure(
        lambda *arrays: np.stack(arrays, axis),
        *[getattr(unroll, field) for unroll in several])

  return types.Unroll(
      stack(1, 'env_outputs'), stack(1, 'agent_outputs'),
      stack(0, 'core_state'), stack(0, 'policy_version'),
      stack(0, 'level_index'))


def test_batches_are_time_major_in_order_and_each_unroll_once(served):
  queue, writer, reader = served
  _write(writer, range(10))
  for start in range(0, 10, B):
    batch = _next(reader)
    assert isinstance(batch, types.Unroll)
    assert isinstance(batch.env_outputs, types.EnvOutput)
    assert isinstance(batch.agent_outputs, types.AgentOutput)
    unrolls.assert_equal(batch, _stacked(range(start, start + B)))
  assert queue.info.current_size == 0


def test_each_unroll_comes_once_in_any_order():
  spec, batch_size, number = unrolls.spec(), 32, 128
  _, address = _serve_queue()
  reader = _reader(address, batch_size, in_order=False)
  _write(queue_lib.UnrollWriter(address, spec), range(number))
  seen = [_next(reader).policy_version for _ in range(number // batch_size)]
  assert sorted(np.concatenate(seen)) == list(range(number))


def test_no_more_than_a_batch_is_read_ahead(served):
  queue, writer, reader = served
  _write(writer, range(20))
  for batches in (1, 2, 3):
    _next(reader)
    ahead = 20 - B * (batches + 1)  # Left when one batch is ready.
    programs.wait_until(  # It does read ahead.
        lambda: queue.info.current_size <= ahead, 'a batch')  # noqa: B023
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
      # One unroll more may be in flight.
      assert queue.info.current_size >= ahead - 1
      time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize('batch_size, in_order', [(8, True), (32, False)])
def test_no_unroll_is_lost_that_comes_as_reverb_stops_waiting(
    batch_size, in_order):
  """Reverb stops waiting every 3 s; many queues and tries, as it is a race."""
  names, secs = [f'queue_{i}' for i in range(32)], 3.
  spec = unrolls.spec()
  address = _serve(*(
      reverb.Table.queue(name, 64, signature=packing.Packing(spec).signature)
      for name in names))
  packed = packing.Packing(spec)
  readers = [batches_lib.BatchReader(batches_lib.make_batches(
      sampling.Source(address, name, batch_size, in_order), packed,
      unroll_filter.refusing(packed, 0, None))) for name in names]
  writers = [queue_lib.UnrollWriter(address, spec, (name,)) for name in names]

  def write_all(of_queue):
    for number in range(batch_size):
      _write(writers[of_queue], [number])
      if batch_size - 4 <= number < batch_size - 1:
        # On the spot and a little off it.
        time.sleep(secs + rng.uniform(-0.004, 0.004))

  rng = random.Random(0)
  with futures.ThreadPoolExecutor(len(names)) as pool:
    list(pool.map(write_all, range(len(names))))
  for reader in readers:
    _next(reader)


@pytest.mark.parametrize('secs', [0, 0.3])
def test_waiting_ends_when_the_process_must_stop(served, secs):
  _, writer, reader = served
  deadline = time.monotonic() + secs
  assert _next_until(reader, lambda: time.monotonic() >= deadline) is None
  # Nothing is lost by it: the batch that comes later is read.
  _write(writer, range(B))
  unrolls.assert_equal(_next(reader), _stacked(range(B)))


def test_failure_to_read_is_raised_by_poll():

  def fail():
    yield 1
    raise ValueError('spoilt')

  reader = batches_lib.BatchReader(
      tf.data.Dataset.from_generator(fail, output_types=tf.int32))
  assert int(_next(reader)) == 1
  with pytest.raises(RuntimeError, match='reading the queue failed') as info:
    _next(reader)
  assert 'spoilt' in str(info.value.__cause__)


def test_batches_are_prepared_ahead():
  ready = threading.Event()

  def prepare(batch):
    ready.set()
    return batch + 1

  ahead = batches_lib.BatchReader(tf.data.Dataset.range(3), prepare)
  assert ready.wait(programs.DEADLINE_SECS)  # Before anyone asks for it.
  assert int(_next(ahead)) == 1


@pytest.fixture(name='with_replay')
def _with_replay():
  """Makes a queue, a replay of six and a writer to both; batches of 3 + 2."""
  spec = unrolls.spec()
  tables = (queue_lib.make_replay(spec, 6, memory_bytes=1 << 30),
            queue_lib.make_queue(spec, 64))
  address = _serve(*tables)
  reader = _reader(address, 3, _replayed(address, 2))
  writer = queue_lib.UnrollWriter(address, spec, (queue_lib.REPLAY,
                                                  queue_lib.QUEUE))
  return tables, writer, reader


def test_batch_has_new_unrolls_in_order_and_then_replayed_ones(with_replay):
  _, writer, reader = with_replay
  _write(writer, range(18))
  for start in range(0, 18, 3):
    batch = _next(reader)
    numbers = batch.policy_version.numpy().tolist()
    assert numbers[:3] == [start, start + 1, start + 2]
    # Whole unrolls, nothing mixed between the two.
    unrolls.assert_equal(batch._replace(origin=()), _stacked(numbers))
    np.testing.assert_array_equal(
        batch.origin.is_replayed, [False] * 3 + [True] * 2)


def test_first_batch_does_not_wait_for_a_replay_to_fill(with_replay):
  (replay_table, queue), writer, reader = with_replay
  _write(writer, range(3))
  assert set(_next(reader).policy_version.numpy()) == {0, 1, 2}
  assert queue.info.current_size == 0 and replay_table.info.current_size == 3
  # Replayed unrolls alone make no batch.
  assert _next_until(reader, iter([False, True]).__next__) is None


def _spoilt(number, value=np.nan):
  """Makes an unroll with such a value among its rewards."""
  unroll = unrolls.numbered(number)
  unroll.env_outputs.reward.flat[-1] = value
  return unroll


@pytest.fixture(name='filtered')
def _filtered():
  """Yields a queue's address, a reader of it and a list of its refusals."""
  _, address = _serve_queue()
  refusals = _Refusals()
  return (address, _reader(address, fingerprint=-5, refusals=refusals),
          refusals.seen)


@pytest.mark.parametrize('value', [np.nan, -np.inf])
def test_unrolls_that_are_not_finite_are_rejected_and_counted(filtered, value):
  address, reader, refused = filtered
  writer = queue_lib.UnrollWriter(address, unrolls.spec(), stamp=_stamp(3, -5))
  _write(writer, range(6), lambda number: _spoilt(number, value)
         if number in (1, 4) else unrolls.numbered(number))
  unrolls.assert_equal(_next(reader), _stacked([0, 2]))
  unrolls.assert_equal(_next(reader), _stacked([3, 5]))
  assert refused == [(3, unroll_filter.NOT_FINITE)] * 2


def test_unrolls_of_another_config_are_rejected_and_counted(filtered):
  address, reader, refused = filtered
  ours, theirs = (
      queue_lib.UnrollWriter(address, unrolls.spec(), stamp=stamp)
      for stamp in (_stamp(1, -5), _stamp(2, 5)))
  for number, writer in enumerate((theirs, ours, theirs, ours)):
    _write(writer, [number])
  unrolls.assert_equal(_next(reader), _stacked([1, 3]))
  assert refused == [(2, unroll_filter.OTHER_CONFIG)] * 2


def test_unrolls_rejected_at_the_queue_are_not_replayed(with_replay):
  _, writer, reader = with_replay
  _write(writer, range(6), lambda number: _spoilt(number)
         if number % 2 else unrolls.numbered(number))
  numbers = _next(reader).policy_version.numpy().tolist()
  assert numbers[:3] == [0, 2, 4]
  assert set(numbers[3:]) <= {0, 2, 4}


@pytest.mark.parametrize('sizes', [(3, 4, 2, 3), (4, 92, 10, 0)])
def test_unrolls_of_other_shapes_are_rejected_and_counted(filtered, sizes):
  address, reader, refused = filtered
  writer = queue_lib.UnrollWriter(address, unrolls.spec(), stamp=_stamp(1, -5))
  _write(writer, [0])
  # A client that does not ask what the table wants.
  other = reverb.Client(address).trajectory_writer(1, validate_items=False)
  other.append(tuple(np.zeros(size, dtype) for size, dtype in zip(
      sizes, (np.uint8, np.float32, np.int32, np.int64))))
  other.create_item(queue_lib.QUEUE, priority=1., trajectory=tuple(
      column[-1] for column in other.history))
  other.flush(timeout_ms=10_000)
  _write(writer, [1])
  unrolls.assert_equal(_next(reader), _stacked([0, 1]))
  (_, reason), = refused
  assert reason == unroll_filter.OTHER_CONFIG


@pytest.fixture(name='with_episodes')
def _with_episodes():
  """Makes a writer to a queue and a replay of episodes; batches of 2 + 3."""
  spec = unrolls.spec()
  tables = (queue_lib.make_replay(spec, 60, 1 << 30, episode_unrolls=4),
            queue_lib.make_queue(spec, 64))
  address = _serve(*tables)
  chains = episodes.Chains(4, num_envs=1)
  writer = queue_lib.UnrollWriter(
      address, spec, (queue_lib.REPLAY, queue_lib.QUEUE),
      replay_item=chains.add, num_kept=chains.num_kept)

  def make_reader(recompute=None):
    return _reader(address, 2, _replayed(
        address, 3, sources.EpisodeReplay, recompute))

  return tables[0], writer, make_reader


def _of_episodes(number):
  """Makes an unroll that ends an episode if its number is odd."""
  unroll = unrolls.numbered(number)
  step_type = np.ones([unrolls.T + 1], np.uint8)
  if number % 2:
    step_type[2] = 0
  return unroll._replace(
      env_outputs=unroll.env_outputs._replace(step_type=step_type))


def test_episodes_are_replayed_unroll_by_unroll(with_episodes):
  table, writer, make_reader = with_episodes
  _write(writer, range(16), _of_episodes)
  assert table.info.max_size == 60 // 4
  assert table.info.current_size == 1 + 8  # The first, and each that ends.
  reader = make_reader(lambda unroll: tf.nest.map_structure(
      lambda t: t * 0 + 5, unroll.core_state))
  last = [None] * 3
  for start in range(0, 12, 2):
    batch = _next(reader)
    numbers = batch.policy_version.numpy().tolist()
    assert numbers[:2] == [start, start + 1]
    np.testing.assert_array_equal(
        batch.origin.is_replayed, [False] * 2 + [True] * 3)
    for before, number in zip(last, numbers[2:]):
      # The next of its episode, or the first of another.
      assert number == before + 1 if before and before % 2 == 0 else (
          number <= 1 or number % 2 == 0)
    last = numbers[2:]
    np.testing.assert_array_equal(batch.core_state[1][2:], [5] * 3)
    assert np.all(batch.core_state[1][:2] != 5)
    np.testing.assert_array_equal(
        batch.env_outputs.reward,
        np.stack([_of_episodes(n).env_outputs.reward for n in numbers], axis=1))


def test_an_episode_with_a_spoilt_unroll_is_left_out(with_episodes):
  _, writer, make_reader = with_episodes
  for number in range(8):
    unroll = _of_episodes(number)
    if number == 3:
      unroll.env_outputs.reward[0] = np.nan
    writer.write(unrolls.packed(unroll))
  writer.flush()
  reader = make_reader()
  for _ in range(3):
    # It is in the episode that it ends, and before the one that follows.
    assert not set(_next(reader).policy_version.numpy()[2:]) & {2, 3, 4, 5}


@pytest.fixture(name='shared')
def _shared():
  """Makes a queue, a shared replay and a function that makes writers."""
  spec = unrolls.spec()
  addresses = [_serve_queue()[1], _serve(
      queue_lib.make_replay(spec, 64, memory_bytes=1 << 30))]

  def make_writer(agent, tables=(queue_lib.REPLAY,), fingerprint=5):
    return queue_lib.UnrollWriter(
        addresses[0], spec, tables, _stamp(3, fingerprint, agent), addresses[1])

  def make_reader(refusals=None):
    return _reader(
        addresses[0], 3, _replayed(addresses[1], 60, sources.SharedReplay, 1,
                                   refusals, fingerprint=5),
        fingerprint=5, refusals=refusals, agent=1)

  return make_writer, make_reader


def test_unrolls_of_other_agents_are_marked(shared):
  make_writer, make_reader = shared
  _write(make_writer(agent=0), [10, 11])
  _write(make_writer(agent=1, tables=(queue_lib.REPLAY, queue_lib.QUEUE)),
         range(3))
  batch = _next(make_reader())
  numbers = batch.policy_version.numpy()
  np.testing.assert_array_equal(batch.origin.is_foreign, numbers >= 10)
  np.testing.assert_array_equal(batch.origin.is_replayed, np.arange(63) >= 3)
  # But for one in 100,000 times.
  assert {*numbers[3:]} == {0, 1, 2, 10, 11}


def test_unrolls_that_others_must_not_send_are_rejected_and_counted(shared):
  make_writer, make_reader = shared
  refusals = unroll_filter.Refusals()
  _write(make_writer(agent=0, fingerprint=6), [10, 11])  # A stranger's.
  # An actor that was started for another agent.
  _write(make_writer(agent=2, tables=(queue_lib.QUEUE,)), [12])
  _write(make_writer(agent=1, tables=(queue_lib.REPLAY, queue_lib.QUEUE)),
         range(3))
  assert set(_next(make_reader(refusals)).policy_version.numpy()) <= {0, 1, 2}
  assert refusals.num_replayed > 0
  assert refusals.total == refusals.num_replayed + 1


def test_each_batch_is_of_one_version_and_of_the_next():
  _, address = _serve_queue()
  spec, refusals = unrolls.spec(), _Refusals()
  writers = [queue_lib.UnrollWriter(address, spec, stamp=_stamp(n))
             for n in range(4)]
  # The first has died after it had sent one; another plays in its place, and
  # one is slow.
  for sender, version in (
      (0, 5), (1, 5), (2, 5), (3, 5), (3, 6), (1, 4), (2, 7), (1, 6), (2, 7)):
    _write(writers[sender], [version])
  reader = _reader(address, refusals=refusals, first_version=5)
  for version in (5, 6):
    assert _next(reader).policy_version.numpy().tolist() == [version] * B
  assert refusals.seen == [
      (sender, unroll_filter.LATE) for sender in (2, 3, 1, 2)]
  # None could take its place.
  _write(writers[0], [7], _spoilt)
  batch = _next(reader)
  assert batch.policy_version.numpy().tolist() == [7] * B
  assert np.isnan(batch.env_outputs.reward).any()


def test_reader_looks_for_no_batch_in_a_pause_and_says_why_none_comes():
  pauses, waits = iter([True, False]), []
  never = tf.data.Dataset.from_generator(
      lambda: iter(threading.Event().wait, None), output_types=tf.int32)
  reader = batches_lib.BatchReader(
      never, must_pause=lambda control: next(pauses),
      problem=lambda: 'the replay is away')
  control = control_lib.LoopControl(on_wait=waits.append)
  assert reader.poll(control) is None
  assert not waits
  assert reader.poll(control) is None and waits == ['the replay is away']


def test_prioritised_unrolls_have_keys_and_weights_and_new_ones_count_fully():
  spec = unrolls.spec()
  address = _serve(
      queue_lib.make_replay(spec, 6, 1 << 30, priority_exponent=1.),
      queue_lib.make_queue(spec, 64))
  _write(queue_lib.UnrollWriter(
      address, spec, (queue_lib.REPLAY, queue_lib.QUEUE)), range(3))
  client = reverb.Client(address)
  often = next(client.sample(queue_lib.REPLAY, emit_timesteps=False)).info.key
  client.mutate_priorities(queue_lib.REPLAY, updates={often: 9.})
  origin = _next(_reader(address, 3, _replayed(
      address, 60, sources.PrioritisedReplay, .5))).origin
  assert not origin.keys[:3].numpy().any()
  np.testing.assert_allclose(origin.weights, np.where(
      origin.keys.numpy() == often, 1 / 3, 1.), rtol=1e-6)
