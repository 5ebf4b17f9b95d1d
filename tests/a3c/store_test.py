"""Processes share parameters without locks, and counts with one.

Optimisers of the shared vectors do what the paper's formulas say.
"""

import contextlib
import functools
import time

import numpy as np
import pytest

from impala_tf.a3c import store as store_lib
from tests.fixtures import programs

_SIZE = 70_000  # Three blocks, of which the last is not whole.


def _subtract(parameters, slot, gradient, learning_rate):
  del slot
  parameters -= learning_rate * gradient


@contextlib.contextmanager
def _process(store, program):
  """Runs a program in another process, to which `store` is the same memory."""
  with programs.running('-c', f"""
import sys
import numpy as np
from impala_tf.a3c import store as store_lib
store = store_lib.find(['queue', sys.argv[1]])
print('found', flush=True)
{program}
""", store.table_name) as process:
    assert process.stdout.readline() == 'found\n'
    yield process


def test_step_reaches_each_parameter_and_its_own_slot():
  store = store_lib.make(_SIZE, 3)
  gradient = np.arange(1, _SIZE + 1, dtype=np.float32)
  store.parameters[:] = 1
  store.push(functools.partial(
      store_lib.rmsprop, decay=0.75, epsilon=1.), 1, gradient, 0.5)
  np.testing.assert_allclose(store.slots[1], gradient**2 / 4, rtol=1e-6)
  np.testing.assert_allclose(
      store.parameters, 1 - 0.5 * gradient / (gradient**2 / 4 + 1)**0.5,
      rtol=1e-5, atol=1e-6)
  assert not store.slots[0].any() and not store.slots[2].any()
  assert not store.target_parameters.any()


def test_target_is_replaced_once_for_each_interval():
  store = store_lib.make(4, 1)
  syncs = 0
  for update in range(1, 101):
    store.push(_subtract, 0, np.ones(4, np.float32), -1.)
    before = store.target_parameters.copy()
    store.add_frames(7, 40, {})
    total, counted, num_syncs = store.counts
    assert (total, counted) == (7 * update, update)
    assert num_syncs == total // 40
    if num_syncs > syncs:  # To shared parameters as they are.
      np.testing.assert_array_equal(store.target_parameters, store.parameters)
      np.testing.assert_array_equal(store.target_parameters, update)
    else:
      np.testing.assert_array_equal(store.target_parameters, before)
    syncs = num_syncs
  assert syncs == 17


def test_target_that_a_killed_process_has_half_replaced_is_replaced_anew():
  store = store_lib.make(_SIZE, 1)
  store.parameters[:] = 1
  store.add_frames(35, 40, {})
  with _process(store, """
import os
import signal

def replace_half():
  store.target_parameters[:30_000] = store.parameters[:30_000]
  os.kill(os.getpid(), signal.SIGKILL)

store.sync_target = replace_half
store.add_frames(7, 40, {})
""") as process:
    assert process.wait(programs.DEADLINE_SECS) == -9
  assert store.target_parameters.sum() == 30_000
  # Its record is there before its frames, which a reader would wait for.
  assert len(store.new_records(0)[0]) == 2
  assert store.counts == store_lib.Counts(35, 1, 0)
  store.parameters[:] = 2
  store.add_frames(7, 40, {})
  np.testing.assert_array_equal(store.target_parameters, 2)
  assert store.counts == store_lib.Counts(42, 2, 1)


def test_records_come_in_order_and_once():
  store = store_lib.make(1, 1)
  assert store.new_records(0) == ([], 0)
  for i in range(3):
    store.add_frames(1, 10, {'number': i, 'loss': float('nan')})
  records, num_read = store.new_records(0)
  assert [record['number'] for record in records] == [0, 1, 2]
  assert np.isnan(records[0]['loss']) and num_read == 3
  store.add_frames(1, 10, {'number': 3})
  assert store.new_records(num_read) == ([{'number': 3}], 4)


def test_oldest_records_give_way():
  store = store_lib.make(1, 1)
  for i in range(5000):
    store.add_frames(1, 10, {'number': i})
  records, num_read = store.new_records(100)
  assert [r['number'] for r in records] == list(range(5000 - 4096, 5000))
  assert num_read == store.counts.num_updates == 5000


def test_processes_change_the_same_vectors_and_count_every_frame():
  store = store_lib.make(_SIZE, 1)
  with _process(store, """
for _ in range(200):
  store.push(lambda parameters, slot, gradient, rate: np.add(
      slot, gradient, out=slot), 0, np.ones(store.parameters.size), 1.)
  store.add_frames(3, 40, {'from': 'there'})
""") as process:
    for _ in range(200):
      store.push(_subtract, 0, np.ones(_SIZE, np.float32), 1.)
      store.add_frames(3, 40, {'from': 'here'})
    assert process.wait(programs.DEADLINE_SECS) == 0
  assert store.counts == store_lib.Counts(1200, 400, 30)
  # Each changed a vector that the other did not.
  np.testing.assert_array_equal(store.parameters, -200)
  np.testing.assert_array_equal(store.slots[0], 200)
  origins = [r['from'] for r in store.new_records(0)[0]]
  assert origins.count('here') == origins.count('there') == 200


def test_killed_process_leaves_the_rest_at_work():
  store = store_lib.make(_SIZE, 1)
  with _process(store, """
while True:
  store.add_frames(1, 10, {})
""") as process:
    for _ in range(20):  # Most likely within the lock once.
      before = store.counts.num_updates
      programs.wait_until(
          lambda: store.counts.num_updates > before, 'updates')  # noqa: B023
    programs.kill(process.pid)
    process.wait()
  before = store.counts
  store.add_frames(1, 10, {})
  assert store.counts.num_frames == before.num_frames + 1


def test_memory_ends_with_its_maker():
  with programs.running('-c', """
import sys
from impala_tf.a3c import store as store_lib
store = store_lib.make(8, 1)
print(store.table_name, flush=True)
sys.stdin.read()
""", stdin=programs.PIPE) as process:
    name = process.stdout.readline().strip()
    found = store_lib.find([name])
    assert found.is_there() and found.table_name == name
    found.parameters[:] = 2
    programs.kill(process.pid)
    process.wait()
    assert not found.is_there()
    assert store_lib.find([name]) is None
  np.testing.assert_array_equal(found.parameters, 2)  # Nothing crashes.


def test_another_file_in_its_place_is_not_taken_for_it():
  store = store_lib.make(8, 1)
  name = store.table_name
  assert store_lib.find([name[:-1] + ('0' if name[-1] != '0' else '1')]) is None
  assert store_lib.find(['queue', 'parameters-x/1/2/3']) is None
  assert store_lib.find(['shared_parameters-boot/1/2/3']) is None


def test_reader_does_not_wait_for_a_stopped_holder_of_the_lock():
  store = store_lib.make(1, 1)
  store.add_frames(1, 10, {})
  with _process(store, """
import time

def wait():
  print('locked', flush=True)
  time.sleep(600)

store.sync_target = wait
store.add_frames(10, 10, {})
""") as process:
    assert process.stdout.readline() == 'locked\n'
    start = time.monotonic()
    assert store.new_records(0) == ([], 0)
    assert time.monotonic() - start < 10
    assert store.problem.startswith(f'process {process.pid} has the lock')
  assert not store.problem
  assert len(store.new_records(0)[0]) == 2


# Optimisers.


class _Overwritten(np.ndarray):
  """Memory in which another process leaves -1 as soon as it is written to."""

  def __setitem__(self, key, value):
    super().__setitem__(key, -1.)

  def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
    inputs = [x.view(np.ndarray) if x is self else x for x in inputs]
    values = getattr(ufunc, method)(*inputs, **kwargs)
    if out is None:
      return values
    self[:] = values
    return self


def test_mean_squares_are_read_once_and_not_after_others_wrote_there():
  parameter = np.zeros(1, np.float32)
  slot = np.zeros(1, np.float32).view(_Overwritten)
  store_lib.rmsprop(parameter, slot, np.full(1, 2, np.float32), 1., 0.99, 0.1)
  assert parameter[0] == pytest.approx(-5.345225, abs=1e-6) and slot[0] == -1


@pytest.mark.parametrize('name', ['rmsprop', 'momentum_sgd'])
def test_steps_are_those_of_float64(name):
  rng = np.random.default_rng(0)
  start, gradients = rng.normal(size=5), rng.normal(size=(7, 5))
  parameters, slot = start.astype(np.float32), np.zeros(5, np.float32)
  expected, memory = start.copy(), np.zeros(5)
  update = store_lib.make_optimizer(name, decay=0.9, epsilon=1e-3)
  for gradient in gradients:
    update(parameters, slot, gradient.astype(np.float32), 0.01)
    if name == 'rmsprop':
      memory = 0.9 * memory + 0.1 * gradient ** 2
      expected -= 0.01 * gradient / (memory + 1e-3) ** 0.5
    else:
      memory = 0.9 * memory + 0.1 * gradient
      expected -= 0.01 * memory
  assert parameters.dtype == slot.dtype == np.float32
  np.testing.assert_allclose(parameters, expected, rtol=1e-5)
  np.testing.assert_allclose(slot, memory, rtol=1e-5)


def test_shared_mean_squares_are_one_vector():
  assert [store_lib.num_slots(name, 16) for name in (
      'shared_rmsprop', 'rmsprop', 'momentum_sgd')] == [1, 16, 16]
