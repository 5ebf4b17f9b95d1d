"""Tests of a real supervisor with small children that die, hang or leave."""

import contextlib
import json
import pathlib
import signal
import time

import pytest

from impala_tf.runtime import child
from tests.fixtures import programs

# Runs a supervisor as `impala_tf.cli.train` does; failures get exit codes that
# cannot be Python's own.
_SUPERVISOR = """
import functools, json, pathlib, sys
from impala_tf import config
from impala_tf.runtime import local, program, supervisor
learners, actor, num_actors, evaluator, log_dir, *limits = json.loads(
    sys.argv[1])
make_program = functools.partial(
    local.LocalProgram, log_dir=pathlib.Path(log_dir),
    launcher=[sys.executable, '-c'])
try:
  signum = supervisor.Supervisor(
      supervisor.LearnerPrograms(len(learners), make_program, *limits,
                          lambda: learners),
      make_program, lambda task, attempt: [*actor, str(task), str(attempt)],
      num_actors,
      evaluator and (lambda attempt: [*evaluator, str(attempt)]),
      poll_secs=0.2).run(lambda: None)
except (program.RunFailed, config.UserError) as error:
  print(error)
  sys.exit(12 if isinstance(error, config.UserError) else 11)
sys.exit(128 + signum if signum else 0)
"""

# The beginning of each child: notes its start in a file of its role.
_CHILD = """
import os, pathlib, signal, sys, time
from impala_tf.runtime import child
child.stop_with_parent(lambda: os._exit(0))
home, role, *numbers = sys.argv[1:]
home = pathlib.Path(home)
with open(home / ('_'.join([role] + numbers[:1]) + '.starts'), 'a') as file:
  file.write(f'{os.getpid()} {time.monotonic()}\\n')
print('hello from', role, *numbers, flush=True)
"""
_STAY = 'time.sleep(1000)'
_DIE = 'print("sent its first unrolls, my last words"); sys.exit(7)'
_WAIT_FOR_END = """
while not (home / 'end').exists():
  time.sleep(0.01)
sys.exit(int((home / 'end').read_text()))
"""
_SAVE_ON_SIGTERM = """
name = '_'.join([role, *numbers])
def save(*unused):
  (home / f'{name}.saved').touch()
  sys.exit(child.DONE)
signal.signal(signal.SIGTERM, save)
(home / f'{name}.ready').touch()
time.sleep(1000)
"""
_IGNORE_SIGTERM = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
(home / f'{role}.ready').touch()
time.sleep(1000)
"""


class _Run:
  """A running supervisor and its children, seen from outside."""

  def __init__(self, home: pathlib.Path, process):
    self._home = home
    self._process = process

  def starts(self, role):
    """Returns (pid, time) of each start of a role so far."""
    try:
      lines = (self._home / f'{role}.starts').read_text().splitlines()
    except FileNotFoundError:
      return []
    return [(int(pid), float(secs)) for pid, secs in map(str.split, lines)]

  def wait_for_start(self, role, number=1):
    """Returns the process id of a role's start of this number."""
    return programs.wait_until(lambda: len(self.starts(role)) >= number,
                               f'{role} to start') and self.starts(
                                   role)[number - 1][0]

  def wait_for_file(self, name):
    programs.wait_until((self._home / name).exists, f'the file {name}')

  def end_learner(self, code):
    new = self._home / 'end.new'
    new.write_text(str(code))
    new.rename(self._home / 'end')

  def send(self, signum):
    self._process.send_signal(signum)

  def wait_for_end(self):
    """Returns exit code and output; no child may be left."""
    output, _ = self._process.communicate(timeout=programs.DEADLINE_SECS)
    assert not self.children()
    return self._process.returncode, output

  def children(self):
    return programs.pids(self._home)

  def log(self, name):
    return (self._home / 'logs' / f'{name}.log').read_text()


@pytest.fixture
def supervise(tmp_path):
  """Starts a supervisor over these programs; returns a `_Run`."""
  with contextlib.ExitStack() as stack:

    def start(learner, actor, num_actors=1, max_restarts=5,
              restart_window_secs=600., evaluator=None, num_learners=1,
              **options):
      arguments = [
          [[_CHILD + learner, str(tmp_path), 'learner',
            *([str(i)] if i else [])] for i in range(num_learners)],
          [_CHILD + actor, str(tmp_path), 'actor'], num_actors,
          evaluator and [_CHILD + evaluator, str(tmp_path), 'evaluator'],
          str(tmp_path / 'logs'), max_restarts, restart_window_secs]
      return _Run(tmp_path, stack.enter_context(programs.running(
          '-c', _SUPERVISOR, json.dumps(arguments), **options)))

    yield start


_SIMULATOR = """
import subprocess
simulator = subprocess.Popen(
    [sys.executable, '-c', 'import time; time.sleep(1000)', str(home)],
    start_new_session=True)
"""
_CLOSE_ON_SIGTERM = _SIMULATOR + """
def close(*unused):
  simulator.kill()
  (home / 'closed').touch()
  sys.exit(143)
signal.signal(signal.SIGTERM, close)
(home / 'actor.ready').touch()
time.sleep(1000)
"""


def test_actors_close_their_environments_when_the_learner_has_ended(
    supervise, tmp_path):
  run = supervise(_WAIT_FOR_END, _CLOSE_ON_SIGTERM)
  run.wait_for_file('actor.ready')
  run.end_learner(child.DONE)
  assert run.wait_for_end() == (0, '')  # No simulator either.
  assert (tmp_path / 'closed').exists()
  assert run.log('learner') == 'hello from learner\n'


def test_simulators_of_killed_actors_end_with_them(supervise):
  run = supervise(_WAIT_FOR_END, _SIMULATOR + _STAY)
  actor = run.wait_for_start('actor_0')
  simulator, = programs.wait_until(
      lambda: set(run.children()) - {actor, run.wait_for_start('learner')},
      'the simulator')
  programs.kill(actor)
  programs.wait_until(lambda: not programs.is_alive(simulator), 'its end')
  run.wait_for_start('actor_0', number=2)
  run.end_learner(7)
  assert run.wait_for_end()[0] == 11
  assert run.log('actor_0').splitlines() == [  # With other seeds.
      'hello from actor 0 0', 'hello from actor 0 1']


@pytest.mark.parametrize('exit_code, words', [
    (7, 'ended with exit code 7'), (None, 'was killed by SIGKILL'),
    # By the code of a user's environment.
    (0, 'ended with exit code 0 before it was done')])
def test_dead_learner_ends_all_with_its_last_words(supervise, exit_code, words):
  run = supervise(_WAIT_FOR_END, _STAY)
  run.wait_for_start('actor_0')
  if exit_code is None:
    programs.kill(run.wait_for_start('learner'))
  else:
    run.end_learner(exit_code)
  code, output = run.wait_for_end()
  assert code == 11
  assert f'the learner {words}' in output
  assert 'hello from learner' in output


@pytest.mark.parametrize('culprit', ['learner', 'actor_0'])
def test_complaint_of_bad_input_is_all_that_is_said_and_ends_all(
    supervise, culprit):
  bad = 'print("error: no such thing", "\\nMuch else." * 50); sys.exit(2)'
  run = supervise(*((bad, _STAY) if culprit == 'learner' else (_STAY, bad)))
  assert run.wait_for_end() == (12, 'no such thing \n')
  assert len(run.starts(culprit)) == 1


def test_evaluator_is_started_again_but_training_goes_on_without_it(
    supervise, tmp_path):
  with (tmp_path / 'errors').open('w') as errors:
    run = supervise(_WAIT_FOR_END, _STAY, max_restarts=1, evaluator=_DIE,
                    stderr=errors)
    programs.wait_until(
        lambda: 'training goes on without it' in (
            tmp_path / 'errors').read_text(), 'its last end')
    # Long enough to start it again.
    programs.kill(run.wait_for_start('actor_0'))
    run.wait_for_start('actor_0', number=2)
    run.end_learner(child.DONE)
    assert run.wait_for_end() == (0, '')
  assert run.log('evaluator').count('hello from evaluator') == 2


@pytest.mark.parametrize('signum, names', [
    (signal.SIGINT, ['learner']), (signal.SIGTERM, ['learner', 'learner_1'])])
def test_signal_lets_every_learner_save_and_ends_all(
    supervise, tmp_path, signum, names):
  run = supervise(_SAVE_ON_SIGTERM, _STAY, num_learners=len(names))
  for name in names:
    run.wait_for_file(f'{name}.ready')
  run.wait_for_start('actor_0')
  start = time.monotonic()
  run.send(signum)
  assert run.wait_for_end() == (128 + signum, '')
  assert time.monotonic() - start < 10
  assert all((tmp_path / f'{name}.saved').exists() for name in names)


@pytest.mark.parametrize('is_repeated, secs', [
    pytest.param(False, 10, marks=pytest.mark.slow), (True, 8)])
def test_learner_that_does_not_stop_is_killed_at_once_or_within_ten_seconds(
    supervise, is_repeated, secs):
  run = supervise(_IGNORE_SIGTERM, _STAY)
  run.wait_for_file('learner.ready')
  actor, learner = map(run.wait_for_start, ('actor_0', 'learner'))
  start = time.monotonic()
  run.send(signal.SIGINT)
  if is_repeated:  # After more than a second.
    programs.wait_until(lambda: not programs.is_alive(actor), 'the first one')
    time.sleep(1.)
    run.send(signal.SIGINT)
  programs.wait_until(lambda: not programs.is_alive(learner), 'its end')
  assert time.monotonic() - start < secs
  code, output = run.wait_for_end()
  assert code == 11
  assert ('did not stop within 8 s' in output) != is_repeated


def test_signal_before_the_learner_is_ready_is_no_failure(supervise):
  run = supervise(_STAY, _STAY)  # Without a handler, as if it were importing.
  run.wait_for_start('learner')
  run.send(signal.SIGINT)
  assert run.wait_for_end() == (130, '')


# Several learners.


def test_learners_that_end_well_end_all_once_the_last_has(supervise):
  run = supervise(
      'if numbers: sys.exit(child.DONE)' + _WAIT_FOR_END, _STAY, num_learners=3)
  run.wait_for_start('learner_2')
  actor = run.wait_for_start('actor_0')
  time.sleep(1)  # Longer than between looks at them.
  assert programs.is_alive(actor)
  run.end_learner(child.DONE)
  assert run.wait_for_end() == (0, '')
  assert run.log('learner') == 'hello from learner\n'
  assert run.log('learner_1') == 'hello from learner 1\n'
