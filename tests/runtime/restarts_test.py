"""Tests of the restart policy: its culprits, waits and limits."""

import math

import pytest

from impala_tf import config as config_lib
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import restarts


class _Ended(program_lib.Program):
  """A program that has ended with an exit code, or is lost (None)."""

  def __init__(self, name, log_dir, exit_code, words=''):
    super().__init__(name, log_dir)
    self.exit_code = exit_code
    self.log_path.write_text(words)

  def how_it_ended(self):
    return super().how_it_ended() if self.exit_code else 'was lost'


@pytest.fixture(name='make')
def _make(tmp_path):
  return lambda *arguments: _Ended(arguments[0], tmp_path, *arguments[1:])


def test_program_that_is_not_needed_is_given_up_and_nothing_else(make):
  program = make('mine', 7)
  policy = restarts.Restarts(program, 2, 100., is_needed=False)
  assert [policy.note_death(now) for now in (0., 10., 20., 30.)] == [
      1., 12., math.inf, math.inf]
  needed = restarts.Restarts(program, 1, 100.)
  assert [needed.note_death(now) for now in (0., 101., 301.)] == [
      1., 102., 302.]  # Each window has one.
  with pytest.raises(
      program_lib.RunFailed, match='code 7: death 2 within 100 s'):
    needed.note_death(302.)


def test_restarts_without_end_wait_half_a_minute_and_need_no_log(make):
  program = make('mine', 7, 'its first')
  endless = restarts.Restarts(program, 10**6, 1e9, first_words='its first')
  assert [endless.note_death(0.) for _ in range(1100)][-1] == 30.
  program.log_path.unlink()
  assert endless.note_death(0.) == 30.


def test_program_that_fails_twice_before_its_first_words_ends_the_run(make):
  words = 'error: environment 0 failed: env.py, line 3'
  policy = restarts.Restarts(
      make('a', 1, words), 5, 100., first_words='its first')
  assert policy.note_death(0.) == 1.
  with pytest.raises(program_lib.RunFailed, match=(
      'a ended with exit code 1, twice before it has done anything: '
      'environment 0 failed: env.py, line 3; see .*a.log')):
    policy.note_death(2.)


@pytest.mark.parametrize('code, words', [
    (1, 'sent its first unrolls'), (-9, ''), (143, ''), (None, '')])
def test_program_that_has_worked_or_was_killed_has_all_its_restarts(
    make, code, words):
  policy = restarts.Restarts(
      make('a', code, words), 5, 100., first_words='its first')
  assert [policy.note_death(now) for now in (0., 2., 5.)] == [1., 4., 9.]


def test_of_several_the_first_to_be_lost_or_killed_is_the_culprit(make, caplog):
  joint = restarts.JointRestarts(2, 100.)
  ended, killed, lost = make('c', 1), make('b', -9), make('a', None)
  joint.note_deaths([ended, killed], 0.)
  joint.note_deaths([ended, killed, lost, lost], 1.)
  first, second = caplog.messages
  assert first.startswith(
      'b was killed by SIGKILL, c ended with exit code 1; all processes start '
      'again, from the last checkpoint: restart 1 of 2')
  assert second.startswith('a was lost, a was lost, b was killed')
  with pytest.raises(
      program_lib.RunFailed, match='the b was killed by SIGKILL'):
    joint.note_deaths([ended, killed], 2.)
  joint.note_deaths([ended], 103.)  # The others are long ago.


def test_complaint_of_any_ends_all_at_once(make):
  joint = restarts.JointRestarts(5, 100.)
  with pytest.raises(config_lib.UserError, match='^it was bad$'):
    joint.note_deaths([make('a', -9), make('b', 2, 'error: it was bad')], 0.)
