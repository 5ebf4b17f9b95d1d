"""Whatever a program has started ends with it, and nothing else does."""

import subprocess

from impala_tf.runtime import leftovers
from tests.fixtures import programs

# Starts a simulator of each kind, and prints their process ids.
_START = """
import multiprocessing, subprocess, sys, time
from impala_tf.runtime import leftovers
command = ['sleep', '1000']
with leftovers.killed_at_end():
  child = subprocess.Popen(command)
  of_a_session = subprocess.Popen(command, start_new_session=True)
  orphan = int(subprocess.check_output(
      ['sh', '-c', 'setsid sleep 1000 > /dev/null & echo $!']))
  server = multiprocessing.get_context('spawn').Process(
      target=time.sleep, args=(1000,), daemon=True)
  server.start()
  for pid in child.pid, of_a_session.pid, orphan, server.pid:
    print(pid, flush=True)
  sys.stdin.read()
"""


def _started(process):
  return [int(process.stdout.readline()) for _ in range(4)]


def _end(process):
  process.stdin.close()
  process.stdin = None  # Else `communicate` would use it.
  process.wait(programs.DEADLINE_SECS)


def _any_left(pids):
  """Returns whether any is alive, and kills it."""
  left = list(filter(programs.is_alive, pids))
  for pid in left:
    programs.kill(pid)
  return bool(left)


def test_children_sessions_and_orphans_of_a_program_end_with_it_alone():
  with programs.running(
      '-c', _START, stdin=programs.PIPE) as other, programs.running(
          '-c', _START, stdin=programs.PIPE) as process:
    others, pids = _started(other), _started(process)
    assert all(map(programs.is_alive, pids + others))
    _end(process)
    assert not _any_left(pids)
    assert all(map(programs.is_alive, others))
    _end(other)
    assert not _any_left(others)


def test_what_a_killed_program_has_started_is_found_by_its_mark():
  mark = __import__('uuid').uuid4().hex
  with programs.running('-c', _START, stdin=programs.PIPE,
                        variables={leftovers.VARIABLE: mark}) as process:
    pids = _started(process)
    process.kill()
    process.wait()
    assert any(map(programs.is_alive, pids))
    leftovers.kill(mark)
    assert not _any_left(pids)


def test_program_does_not_end_itself_nor_what_it_had_started_before():
  with subprocess.Popen(['sleep', '1000']) as before:
    with leftovers.killed_at_end() as mark:
      leftovers.kill(mark)
    assert before.poll() is None
    before.kill()
