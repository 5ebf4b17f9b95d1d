"""Tests of decisions of a population that are killed, or find no room."""

import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.pbt import populations
from tests.fixtures import programs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_MODULE = 'tests.fixtures.faults.disturbed_member'
# Whatever is killed up to here has decided nothing yet.
_UNDECIDED = [('after', 'save'), ('before', 'copy_parameters'),
              ('torn', 'copy_parameters'), ('after', 'copy_parameters'),
              ('torn', 'append_event')]
_DECIDED = [('after', 'append_event'), ('before', 'write_parts'),
            ('after', 'write_parts'), ('before', 'publish'),
            ('after', 'publish'), ('after', 'remove_parameters')]
_ROOM_FOR = ('save', 'copy_parameters', 'append_event', 'write_parts',
             'publish')


class _Trainer:
  """The program that trains members, one after the other."""

  def __init__(self, process, good):
    self._process = process
    self._good = good

  def train(self, run_dir, mode='nothing', function='nothing'):
    return int(programs.ask(self._process, f'{mode} {function} {run_dir}'))

  def begin(self, directory):
    """Makes a population with a better member; returns the other's run."""
    directory.mkdir()
    shutil.copytree(self._good, directory / 'good')
    return directory / 'copies'


@pytest.fixture(name='trainer', scope='module')
def _trainer(tmp_path_factory):
  good = tmp_path_factory.mktemp('population') / 'good'
  with open(tmp_path_factory.mktemp('errors') / 'log', 'w') as errors:
    with programs.running(
        '-m', _MODULE, stdin=programs.PIPE, stderr=errors) as process:
      trainer = _Trainer(process, good)
      assert trainer.train(good) == 0, errors
      yield trainer


@pytest.fixture(name='reference', scope='module')
def _reference(trainer, tmp_path_factory):
  """Trains a member that nothing disturbs; returns its directory."""
  run_dir = trainer.begin(tmp_path_factory.mktemp('reference') / 'members')
  assert trainer.train(run_dir) == 0
  event, = populations.read_events(str(run_dir))
  assert event.is_copy
  return run_dir


def _tensors(run_dir):
  reader = tf.train.load_checkpoint(populations.path(
      str(run_dir), populations.read_published(str(run_dir)).checkpoint))
  return {name: reader.get_tensor(name)
          for name in reader.get_variable_to_shape_map()
          if not name.startswith('_')}


def _check_whole(run_dir, reference):
  """Checks that a member has decided once, and as its log says."""
  event, = populations.read_events(str(run_dir))
  expected, = populations.read_events(str(reference))
  assert event.is_copy and event.partner == expected.partner
  assert event.after == expected.after  # The draws, and what was copied.
  published = populations.read_published(str(run_dir))
  assert published.evolution == 1
  assert published.score == event.partner_score
  assert published.hyperparameters == event.after
  for name, value in _tensors(reference).items():
    assert np.array_equal(_tensors(run_dir)[name], value), name
  return event, expected


@pytest.mark.parametrize('mode, function', _UNDECIDED + _DECIDED)
def test_killed_between_two_writes(trainer, reference, tmp_path, fault, mode,
                                   function):
  for i in range(fault.tries):
    run_dir = trainer.begin(tmp_path / str(i))
    assert trainer.train(run_dir, mode, function) == -signal.SIGKILL
    there = populations.read_events(str(run_dir))
    assert len(there) == ((mode, function) in _DECIDED)
    assert trainer.train(run_dir) == 0
    event, expected = _check_whole(run_dir, reference)
    if there:
      assert [event] == there == [expected]  # It was not made anew.
  fault.report(f'kill -9 of a member {mode} {function}', lost='')


@pytest.mark.parametrize('function', _ROOM_FOR)
def test_disk_is_full_in_a_decision(trainer, reference, tmp_path, fault,
                                    function):
  for i in range(fault.tries):
    run_dir = trainer.begin(tmp_path / str(i))
    assert trainer.train(run_dir, 'full', function) == 0
    event, = populations.read_events(str(run_dir))
    expected, = populations.read_events(str(reference))
    assert event.after == expected.after and event.is_copy
    # Later, once there was room, or published later than decided.
    published = populations.read_published(str(run_dir))
    assert max(event.frames, published.frames) > expected.frames
    assert published.hyperparameters == event.after
  fault.report(f'disk full in {function} of a decision', lost='')
