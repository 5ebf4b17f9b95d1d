"""Output that cannot be written ends nothing, and says once what is lost."""

import contextlib
import functools
import io
import os
import sys

import pytest

from impala_tf.runtime import output
from tests.fixtures import programs

# Prints more than any buffer holds. Then it reports on standard error whether
# a new file has taken the place of a closed one.
_CODE = """
import os, sys
from impala_tf.runtime import output
with output.never_failing():
  for _ in range(3):
    print('größe · ' * 10_000, flush=True)
  file = open(os.devnull)
  print('done', file.fileno() > 2, file=sys.stderr)
"""
_LOST = 'standard output cannot be written ({}); the program goes on\n'


def _gone(stack, make=os.pipe):
  reader, writer = make()
  os.close(reader)
  stack.callback(os.close, writer)
  return writer


def _not_blocking(stack):
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  stack.callback(os.close, reader)
  stack.callback(os.close, writer)
  return writer


@pytest.mark.parametrize('open_output, words', [
    (_gone, _LOST.format('Broken pipe')),
    (lambda stack: stack.enter_context(open('/dev/full', 'wb')),
     _LOST.format('No space left on device')),
    (functools.partial(_gone, make=os.openpty),
     _LOST.format('Input/output error')), (_not_blocking, '')])
def test_program_goes_on_though_nobody_can_read(open_output, words):
  with contextlib.ExitStack() as stack:
    with programs.running('-c', _CODE, stdout=open_output(stack)) as process:
      _, errors = process.communicate(timeout=programs.DEADLINE_SECS)
  assert (process.returncode, errors) == (0, f'{words}done True\n')


def test_program_that_must_not_wait_goes_on_though_nobody_reads():
  reader, writer = os.pipe()  # It is full after 64 KiB.
  with open(reader, 'rb'), open(writer, 'wb') as full, programs.running(
      '-c', _CODE.replace('  for', '  output.waits_for_ever = False\n  for'),
      stdout=full) as process:
    assert process.communicate(timeout=programs.DEADLINE_SECS) == (
        None, f'{_LOST.format("its reader has stopped")}done True\n')


def test_program_goes_on_if_errors_cannot_be_written_either():
  with open('/dev/full', 'wb') as full:
    with programs.running('-c', _CODE, stdout=full, stderr=full) as process:
      assert process.wait(programs.DEADLINE_SECS) == 0


def test_closed_output_is_replaced_by_no_file():
  ran = programs.run_code(
      'import os, sys; os.execvp("bash", ["bash", *sys.argv[1:]])',
      '-c', 'exec "$@" <&- >&-', 'bash', sys.executable, '-c', _CODE)
  assert (ran.returncode, ran.stderr) == (0, 'done True\n')


@pytest.mark.parametrize('encoding, shown', [
    ('ascii', 'gr??e ? '), ('latin-1', 'größe · ')])
def test_characters_that_an_encoding_lacks_are_replaced(encoding, shown):
  ran = programs.run_code(
      _CODE, text=False, variables={'PYTHONIOENCODING': encoding}, check=True)
  assert ran.stdout.decode(encoding) == 3 * (10_000 * shown + '\n')


def test_streams_of_others_stay_and_own_ones_come_back(monkeypatch):
  theirs = io.StringIO()
  monkeypatch.setattr(sys, 'stdout', theirs)
  errors = sys.stderr
  with output.never_failing():
    assert sys.stdout is theirs
  assert sys.stdout is theirs and sys.stderr is errors


_WITH_LIBRARIES = """
import os, sys
from impala_tf.runtime import output
try:
  with output.libraries_in(sys.argv[1]):
    os.write(2, b'of a library\\n')
    print('of Python', file=sys.stderr)
    raise KeyError('lost')
except KeyError:
  pass
try:
  os.write(2, b'again\\n')
  print('also', file=sys.stderr)
except OSError:
  os._exit(3)  # As it was before.
"""


def test_python_alone_stays_on_the_terminal(tmp_path):
  path = tmp_path / 'logs' / 'learner.log'
  for _ in range(2):
    ran = programs.run_code(_WITH_LIBRARIES, path)
    assert (ran.stdout, ran.stderr) == ('', 'of Python\nagain\nalso\n')
  assert path.read_text() == 2 * 'of a library\n'


def test_terminal_may_go_while_lines_of_libraries_are_kept_out(tmp_path):
  path = tmp_path / 'learner.log'
  with open('/dev/full', 'wb') as full:
    with programs.running(
        '-c', _WITH_LIBRARIES, str(path), stderr=full) as process:
      assert process.wait(programs.DEADLINE_SECS) == 3
  assert path.read_text() == 'of a library\n'
