"""Learners that update together: real processes, and turns between threads."""

import concurrent.futures
import contextlib
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from impala_tf.core import loop
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import learner_group
from impala_tf.runtime import ports
from tests.fixtures import programs
from tests.fixtures import replica_process

_DEADLINE_SECS = 200.
pytestmark = pytest.mark.timeout(400)


class _Process:
  """A learner's process with its output and its results."""

  def __init__(self, process, directory, name):
    self.process = process
    self._directory = directory
    self._name = name

  def log(self):
    return (self._directory / f'{self._name}.log').read_text()

  def wait_until_done(self):
    programs.wait_until(
        lambda: 'done' in self.log() or self.process.poll() is not None,
        'updates', _DEADLINE_SECS)
    assert 'done' in self.log(), self.log()

  def results(self):
    self.wait_until_done()
    return np.load(self._directory / f'{self._name}.npz')


@contextlib.contextmanager
def _running(directory, name, *arguments):
  with (directory / f'{name}.log').open('w') as log:
    with programs.running('-m', 'tests.fixtures.replica_process',
                          directory / name, *arguments, stdout=log,
                          stderr=log) as process:
      yield _Process(process, directory, name)


@contextlib.contextmanager
def _two(directory):
  addresses = [f'localhost:{port}' for port in ports.choose_free(2)]
  with contextlib.ExitStack() as stack:
    yield addresses, [stack.enter_context(_running(
        directory, f'learner_{task}', task, *addresses)) for task in range(2)]


@pytest.fixture(name='ran', scope='module')
def _ran(tmp_path_factory):
  """Runs two learners and a single one; returns their results and ends."""
  directory = tmp_path_factory.mktemp('replicas')
  with _two(directory) as (addresses, processes), _running(
      directory, 'alone', 0) as alone:
    results = [process.results() for process in processes]
    one = alone.results()
    killed = time.monotonic()
    processes[1].process.kill()
    code = processes[0].process.wait(_DEADLINE_SECS)
    secs = time.monotonic() - killed
    return results, one, (addresses[1], code, processes[0].log(), secs)


@pytest.mark.slow
def test_update_of_each_is_that_of_one_learner_with_all_batches(ran):
  (first, second), one, _ = ran
  assert first['values'].shape[0] == replica_process.NUM_UPDATES
  np.testing.assert_array_equal(first['values'], second['values'])
  np.testing.assert_array_equal(first['rows'], second['rows'])
  # Sums over a batch of 6 x 5 steps in another order differ by some 10
  # roundings of 6e-8 each; an update multiplies by a learning rate of 0.05
  # over a root that is 0.14 at least, and there are six.
  np.testing.assert_allclose(
      first['values'], one['values'], rtol=1e-5, atol=2e-6)
  moved = np.abs(np.diff(one['values'], axis=0)).max(axis=1)
  assert np.all(np.delete(moved, replica_process.NAN_UPDATE - 1) > 1e-3)
  assert first['num_updates'] == one['num_updates'] == (
      replica_process.NUM_UPDATES)
  frames = (2 * replica_process.NUM_FRESH * replica_process.T *
            replica_process.FRAMES_PER_STEP * replica_process.NUM_UPDATES)
  assert first['num_frames'] == one['num_frames'] == frames


@pytest.mark.slow
def test_metrics_are_those_of_all_batches(ran):
  (first, _), one, _ = ran
  names = list(first['names'])
  assert names == list(one['names'])
  assert {'loss/total', 'fresh/rho/mean', 'replayed/rho/mean', 'gradient_norm',
          'popart/scale_max'} <= set(names)
  rows, ones = (
      np.delete(result['rows'], replica_process.NAN_UPDATE, axis=0)
      for result in (first, one))
  assert np.all(np.isfinite(ones))
  # It is a ratio of each replica's own variances; all others are sums.
  is_sum = np.array(names) != 'explained_variance'
  np.testing.assert_allclose(
      rows[:, is_sum], ones[:, is_sum], rtol=1e-4, atol=1e-5)
  assert np.any(ones[:, names.index('gradient_norm')] >
                replica_process.MAX_NORM)  # So that what is clipped matters.


@pytest.mark.slow
def test_update_that_is_bad_for_one_is_skipped_by_all(ran):
  (first, _), one, _ = ran
  bad = replica_process.NAN_UPDATE
  for result in (first, one):
    norm = result['rows'][:, list(result['names']).index('gradient_norm')]
    assert list(np.flatnonzero(~np.isfinite(norm))) == [bad]
    np.testing.assert_array_equal(
        result['values'][bad], result['values'][bad - 1])
    assert np.all(np.isfinite(result['values']))


@pytest.mark.slow
def test_logs_see_the_unrolls_of_all_and_messages_leave_no_threads_behind(ran):
  for result in ran[0]:
    for i, pair in enumerate(zip(*replica_process.ARRAYS)):
      whole, gathered = np.concatenate(pair, axis=-1), result[f'gathered_{i}']
      assert gathered.dtype == whole.dtype
      np.testing.assert_array_equal(gathered, whole)
    before, after = result['num_threads']
    assert after - before < replica_process.NUM_GATHERS / 4


@pytest.mark.slow
def test_process_whose_peer_hangs_ends():
  code = ('from impala_tf.runtime import learner_group as group\n'
          'import threading\n'
          'with group.ending_after(0.1):\n'
          '  threading.Event().wait(100)\n')
  ended = subprocess.run([sys.executable, '-c', code], capture_output=True,
                         text=True, check=False, timeout=_DEADLINE_SECS)
  assert ended.returncode == 1
  assert 'Timeout' in ended.stderr


@pytest.mark.slow
def test_learners_that_would_learn_apart_are_refused_by_all(ran):
  same = ''
  for result in ran[0]:
    for message, words in zip(result['refusals'], (
        same, 'another number of threads than learner 0; set LearnerConfig.num',
        "another config than learner 0; start all with the same, and with the "
        "chief's --run_dir",
        'another precision than learner 0; set LearnerConfig.precision',
        same, 'other parameters than learner 0; all must see the same run dir',
        'other parameters than learner 0')):
      assert message.startswith('learner 1 has ' + words if words else same)
      assert bool(message) == bool(words)


@pytest.mark.slow
def test_killed_learner_is_named_and_ends_the_other(ran):
  address, code, log, secs = ran[2]
  assert code == 1
  line, = [line for line in log.splitlines() if line.startswith('error: ')]
  assert line.startswith(
      f'error: learner 0 has lost learner 1 ({address}); to go on from the '
      'last checkpoint start all learners anew')
  assert secs < 60


@pytest.mark.slow
def test_learner_that_does_not_come_is_waited_for_and_named(tmp_path):
  addresses = [f'localhost:{port}' for port in ports.choose_free(2)]
  with _running(tmp_path, 'first', 0, *addresses) as first:
    words = f'not there: learner 1 ({addresses[1]})'
    programs.wait_until(lambda: words in first.log(), words, _DEADLINE_SECS)
    assert first.process.poll() is None


# Turns.


class _Exchange:
  """One of two threads that exchange numbers, in place of `gather`."""
  number = 2
  agree = learner_group.Learners.agree

  def __init__(self, task, rows, barrier):
    self._task, self._rows, self._barrier = task, rows, barrier

  def gather(self, numbers):
    self._rows[self._task] = numbers
    self._barrier.wait(20)
    rows = np.array(self._rows, float)
    self._barrier.wait(20)
    return rows


class _Reader:
  """A reader that has a batch at some times and none at others."""

  def __init__(self, is_ready):
    self._is_ready = is_ready
    self._number = 0

  def poll(self, control):
    time.sleep(0.001)
    if not self._is_ready(self._number):
      control.on_wait('')
      return None
    self._number += 1
    return self._number


def _take_turns(is_ready, should_stop, on_wait=lambda cause: None):
  """Runs two learners' turns; returns the batches that each got."""
  rows, barrier, got = [None, None], threading.Barrier(2), [[], []]
  exchanges = [_Exchange(task, rows, barrier) for task in range(2)]

  def run(task):
    control = control_lib.LoopControl(
        lambda: should_stop[task](got[task]),
        on_wait=lambda cause: task or on_wait(cause))
    for batch in loop.read(
        _Reader(is_ready[task]), control, exchanges[task].agree):
      got[task].append(batch)

  with concurrent.futures.ThreadPoolExecutor(2) as threads:
    for future in [threads.submit(run, task) for task in range(2)]:
      future.result(60)
  return got


def test_one_that_is_asked_to_stop_stops_all_at_the_same_update():
  got = _take_turns(
      [lambda number: True] * 2,
      [lambda got: len(got) >= 3, lambda got: False])
  assert got == [[1, 2, 3]] * 2


def test_one_without_a_batch_makes_all_wait_and_can_still_be_stopped():
  waits_since = []

  def has_waited(got):
    if len(got) == 2 and not waits_since:
      waits_since.append(time.monotonic())
    return bool(waits_since) and time.monotonic() > waits_since[0] + 2

  got = _take_turns(
      [lambda number: True, lambda number: number < 2],
      [has_waited, lambda got: False])
  assert got == [[1, 2]] * 2  # Nothing is lost that was learned from by one.


def test_one_that_has_a_batch_hears_that_it_waits_for_others():
  causes = []
  assert _take_turns(
      [lambda number: True, lambda number: False],
      [lambda got: len(causes) >= 2, lambda got: False],
      causes.append) == [[], []]
