"""Tests of the starts and ends of learners on a cluster, with stand-ins."""

import re

import pytest

from impala_tf import config as config_lib
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import user_modules
from impala_tf.runtime import waiting

pytest.importorskip('ray', reason="needs the extra 'ray'")

from impala_tf.ray_cluster import program as ray_program  # noqa: E402  It needs Ray.
from impala_tf.ray_cluster import run as ray_run  # noqa: E402

State = program_lib.State
_NEEDS = ray_connection.Resources(1., 0.)


class _Program(program_lib.Program):
  """A program in the state that the test sets, which notes all calls."""

  def __init__(self, name, log_dir, needs, environment=None, needed=()):
    super().__init__(name, log_dir)
    assert needs == _NEEDS and not environment
    log_dir.mkdir(exist_ok=True)
    self.log_path.write_text('my last words')
    self.state = State.ABSENT
    self.report = None
    self.calls = []
    self._needed = needed

  @property
  def place_name(self):
    return self.report.ip

  def how_it_ended(self):
    return 'was lost' if self.state is State.LOST else super().how_it_ended()

  def end(self, code):
    self.state, self.exit_code = State.ENDED, code

  def be_placed(self, ip, *ports):
    self.state = State.PLACED
    self.report = ray_program.Report('', ip, '', ports, None, b'')

  def place(self):
    self.calls.append('place')
    self.exit_code = None
    self.state = State.PLACING

  def withdraw(self):
    self.calls.append('withdraw')
    self.state = State.ABSENT

  def start(self, command):
    assert self.state is State.PLACED
    self.calls.append((command, self._needed))
    self.state = State.RUNNING


@pytest.fixture(name='make')
def _make(monkeypatch, tmp_path):
  monkeypatch.setattr(ray_program, 'RayProgram', _Program)

  def make(number, port=None, wait_secs=600.):
    config = config_lib.Config(
        learner=config_lib.LearnerConfig(num_learners=number))
    return ray_run.RayLearners(
        config, str(tmp_path), tmp_path, port, _NEEDS, wait_secs)

  return make


def _flags(program):
  """Returns some flags of the last start of a program."""
  (module, verb, role, *flags), needed = program.calls[-1]
  assert (module, verb, role) == ('impala_tf', 'role', 'learner')
  assert f'--run_dir={needed[0]}' in flags and len(needed) == 1
  assert {'--supervised', '--wait_secs=600'} <= set(flags)
  return [flag for flag in flags if re.match(
      '--(address|task|learners)=', flag)]


def _run(learners):
  """Gives each learner its own place, and starts all."""
  learners.tend()
  for i, program in enumerate(learners.programs):
    program.be_placed(f'10.0.0.{i}', 1, 2)
  learners.tend()
  assert learners.are_running


def test_several_start_once_all_are_placed_and_know_of_each_other(make):
  learners = make(2)
  first, second = learners.programs
  learners.tend()
  first.be_placed('10.0.0.0', 5, 6)
  learners.tend()
  assert first.state is State.PLACED and not learners.are_running
  second.be_placed('10.0.0.1', 5, 6)  # Of another node.
  learners.tend()
  together = '--learners=10.0.0.0:6,10.0.0.1:6'
  assert _flags(first) == ['--address=10.0.0.0:5', '--task=0', together]
  assert _flags(second) == ['--address=10.0.0.1:5', '--task=1', together]
  assert learners.addresses == ['10.0.0.0:5', '10.0.0.1:5']
  assert learners.are_running


def test_two_on_one_node_have_no_port_in_common(make):
  learners = make(2)
  first, second = learners.programs
  learners.tend()
  first.be_placed('10.0.0.0', 5, 6)
  second.be_placed('10.0.0.0', 7, 5)
  learners.tend()
  assert not learners.are_running  # Its next report has others.
  second.be_placed('10.0.0.0', 7, 8)
  learners.tend()
  assert _flags(second)[-1] == '--learners=10.0.0.0:6,10.0.0.0:8'


def test_port_that_was_asked_for_is_the_first_of_as_many(make):
  learners = make(2, port=5000)
  _run(learners)
  assert learners.addresses == ['10.0.0.0:5000', '10.0.0.1:5001']
  assert _flags(learners.programs[0])[-1] == '--learners=10.0.0.0:2,10.0.0.1:2'


@pytest.mark.parametrize('code, error', [
    (0, program_lib.RunFailed), (1, program_lib.RunFailed),
    (2, config_lib.UserError)])
def test_one_alone_that_fails_by_itself_is_not_tried_again(make, code, error):
  learners = make(1)
  _run(learners)
  learners.programs[0].end(code)
  with pytest.raises(error):
    learners.are_done()


@pytest.mark.parametrize('code', [None, -9, 143])
def test_one_alone_that_is_lost_or_killed_starts_again(make, code):
  learners = make(1)
  _run(learners)
  program, = learners.programs
  program.end(code)
  if code is None:
    program.state = State.LOST
  assert not learners.are_done()
  assert learners.have_died()
  learners.place_anew()
  assert program.calls[-1] == 'place'
  _run(learners)


def test_room_for_all_is_not_waited_for_forever(make):
  learners = make(2, wait_secs=1e-9)
  learners.programs[0].be_placed('10.0.0.0', 1, 2)
  with pytest.raises(waiting.PeerMissing, match='nodes with room for 2 learne'):
    learners.tend()


@pytest.mark.usefixtures('modules_forgotten')
def test_node_must_have_the_users_files(tmp_path):
  (tmp_path / 'my_file.py').touch()
  user_modules.load([str(tmp_path / 'my_file.py'), 'wave'])
  path = str(tmp_path / 'my_file.py')
  assert ray_run.needed_paths('/run') == ['/run', path]
  assert ray_run.needed_paths('gs://bucket/run') == [path]
