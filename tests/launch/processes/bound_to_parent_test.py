"""A program that is killed when its parent dies."""

import subprocess
import sys

from tests.fixtures import programs

# Starts the program given, tells its process id, and waits to be killed.
_PARENT = """
import os, subprocess, sys
child = subprocess.Popen([
    sys.executable, '-m', 'launch.processes.bound_to_parent', str(os.getpid()),
    *sys.argv[1:]])
print(child.pid, flush=True)
child.wait()
"""


def test_program_dies_with_its_parent(tmp_path):
  program = ('tests.fixtures.batch_program', 'long', 'bound', tmp_path)
  with programs.running('-c', _PARENT, *program) as parent:
    pid = int(parent.stdout.readline())
    programs.wait_until((tmp_path / f'pid_bound_{pid}').exists, 'its start')
    assert programs.is_alive(pid)
    programs.kill(parent.pid)
    programs.wait_until(lambda: not programs.is_alive(pid), 'its end')


def test_program_whose_parent_is_dead_already_never_starts(tmp_path):
  ran = subprocess.run(
      [sys.executable, '-m', 'launch.processes.bound_to_parent', '1',
       'tests.fixtures.batch_program', 'short', 'bound', str(tmp_path)],
      cwd=programs.ROOT, timeout=programs.DEADLINE_SECS)
  assert ran.returncode == 1
  assert not list(tmp_path.iterdir())
