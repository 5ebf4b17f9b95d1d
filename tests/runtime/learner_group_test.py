"""Learners that update together: real processes, and turns between threads."""

import contextlib
import itertools
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

  def results(self):
    programs.wait_until(
        lambda: 'done' in self.log() or self.process.poll() is not None,
        'updates', _DEADLINE_SECS)
    assert 'done' in self.log(), self.log()
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
  ended = programs.run_code(code, timeout=_DEADLINE_SECS)
  assert ended.returncode == 1
  assert 'Timeout' in ended.stderr


@pytest.mark.slow
def test_learners_that_would_learn_apart_are_refused_by_all(ran):
  same = ''
  for result in ran[0]:
    for message, words in zip(result['refusals'], (
        same, 'another number of threads than learner 0; set LearnerConfig.num',
        'another config than learner 0; start all with one config',
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


@pytest.mark.parametrize('rows, expected', [
    ([(1, 0), (1, 0)], (True, False)), ([(1, 0), (0, 0)], (False, False)),
    ([(1, 0), (1, 1)], (True, True)), ([(0, 1), (1, 0)], (False, True))])
def test_all_must_have_a_batch_and_any_may_stop_all(
    monkeypatch, rows, expected):
  learners = learner_group.Learners(None, number=2)
  monkeypatch.setattr(learners, 'gather', lambda numbers: np.array(rows))
  assert learners.agree(*map(bool, rows[0])) == expected


class _Reader:
  """A reader that has a batch from the second look on."""

  def __init__(self):
    self._numbers = itertools.count()

  def poll(self, control):
    return next(self._numbers) or None


def _batches(answers, must_stop=False):
  """Reads batches by a group's answers; returns them and all that was said."""
  said, answers = [], iter(answers)

  def agree(has_batch, must_stop):
    said.append((has_batch, must_stop))
    return next(answers)

  control = control_lib.LoopControl(lambda: must_stop, on_wait=said.append)
  return list(loop.read(_Reader(), control, agree)), said


def test_learner_with_a_batch_waits_for_the_others_and_loses_none():
  got, said = _batches(
      [(False, False), (False, False), (False, False), (True, False),
       (True, False), (True, True)])
  assert got == [1, 2]  # And not the third, with which one was to stop.
  assert said == [
      (False, False), (True, False), '', (True, False), '', (True, False),
      (True, False), (True, False)]


def test_learner_that_is_to_stop_waits_until_all_do():
  answers = [(False, False), (False, False), (False, True)]
  assert _batches(answers, must_stop=True) == ([], 3 * [(False, True)])
