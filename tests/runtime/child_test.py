"""Supervised processes end with their supervisor, and make room for others."""

import errno
import os
import subprocess

import pytest

from impala_tf.runtime import child
from tests.fixtures import programs


def test_process_that_is_deaf_ends_some_time_after_its_supervisor():
  code = """
import threading
from impala_tf.runtime import child
child.stop_with_parent(lambda: print('asked to stop', flush=True), 0.5)
print('waits', flush=True)
threading.Event().wait()
"""
  with programs.running('-c', code, stdin=programs.PIPE) as process:
    assert process.stdout.readline() == 'waits\n'
    assert process.poll() is None
    process.stdin.close()
    process.stdin = None
    output, errors = process.communicate(timeout=programs.DEADLINE_SECS)
  assert (process.returncode, output, errors) == (1, 'asked to stop\n', '')


def test_actors_yield_to_the_learner():
  code = """
import os
from impala_tf.runtime import child as child_lib
before = os.nice(0)
child_lib.yield_to_others()
print(os.nice(0) - before)
try:
  print(open('/proc/self/autogroup').read())
except OSError:
  print('no groups')
"""
  ran = programs.run_code(code, start_new_session=True)
  niceness, group = ran.stdout.strip().splitlines()
  assert int(niceness) >= min(10, 19 - os.nice(0)) and not ran.stderr
  assert group == 'no groups' or group.endswith('nice 10')


def test_actors_that_start_together_all_yield(monkeypatch):
  written = []

  def write(path, text):
    written.append((str(path), text))
    if len(written) < 3:  # Others were first.
      raise BlockingIOError(errno.EAGAIN, 'Resource temporarily unavailable')

  monkeypatch.setattr(child.os, 'nice', lambda increment: 0)
  monkeypatch.setattr(child.pathlib.Path, 'write_text', write)
  child.yield_to_others()
  assert written == 3 * [('/proc/self/autogroup', '10')]


@pytest.mark.parametrize('debug, words', [
    ('breakpoint()', 'UserError: breakpoint() needs a terminal'),
    ('pdb.set_trace()', 'bdb.BdbQuit'),
    ('input()', 'EOFError')])
def test_child_that_waits_for_a_terminal_ends_and_still_sees_its_parent_end(
    debug, words):
  code = f"""
import os, pdb, threading
from impala_tf.runtime import child

def debugged():
  {debug}
  return None

gone = threading.Event()
child.stop_with_parent(gone.set)
child.refuse_breakpoints()
try:
  debugged()
finally:
  assert not gone.is_set()
  print('waits', flush=True)
  gone.wait({programs.DEADLINE_SECS})
  print('parent has gone:', gone.is_set())
"""
  with programs.running('-c', code, stdin=subprocess.PIPE) as process:
    line = process.stdout.readline()
    while line and not line.endswith('waits\n'):  # After the debugger's lines.
      line = process.stdout.readline()
    output, errors = process.communicate(timeout=programs.DEADLINE_SECS)
  assert output == 'parent has gone: True\n' and words in errors
