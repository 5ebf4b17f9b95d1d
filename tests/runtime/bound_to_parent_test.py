"""A program gets a signal when its parent dies."""

import pytest

from tests.fixtures import programs

# Starts the given program, prints its process id, and waits to be killed.
_PARENT = """
import os, subprocess, sys
child = subprocess.Popen([
    sys.executable, '-m', 'impala_tf.runtime.bound_to_parent', str(os.getpid()),
    *sys.argv[1:]])
print(child.pid, flush=True)
child.wait()
"""
_PROGRAM = 'tests.fixtures.batch_program'


# A stubborn program ignores all signals but SIGKILL.
@pytest.mark.parametrize('signal_name, mode', [
    ('SIGKILL', 'stubborn'), ('SIGTERM', 'long')])
def test_program_gets_the_signal_when_its_parent_dies(
    tmp_path, signal_name, mode):
  with programs.running('-c', _PARENT, signal_name, _PROGRAM, mode, 'bound',
                        tmp_path) as parent:
    pid = int(parent.stdout.readline())
    programs.wait_until((tmp_path / f'pid_bound_{pid}').exists, 'its start')
    assert programs.is_alive(pid)
    programs.kill(parent.pid)
    programs.wait_until(lambda: not programs.is_alive(pid), 'its end')


def test_program_whose_parent_is_dead_already_never_starts(tmp_path):
  ran = programs.run('impala_tf.runtime.bound_to_parent', '1', 'SIGKILL',
                     _PROGRAM, 'short', 'bound', tmp_path)
  assert ran.returncode == 1
  assert not list(tmp_path.iterdir())
