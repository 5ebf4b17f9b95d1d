"""Runs the project's programs as a user does, and watches their processes."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PIPE = subprocess.PIPE
# Far more than anything needs, on a machine with much else to do, and less than
# pytest allows a test.
DEADLINE_SECS = 90.

# A small run of Catch: one actor, updates of 40 frames each.
CATCH = (
    'configs/catch.gin',
    '--gin_binding=LearnerConfig.batch_size = 8',
    '--gin_binding=LearnerConfig.unroll_length = 5',
    '--gin_binding=ActorConfig.num_actors = 1',
    '--gin_binding=ActorConfig.num_envs = 4',
    '--gin_binding=ExperimentConfig.log_interval_secs = 0.2')
CATCH_FRAMES_PER_UPDATE = 40


def _options(kwargs):
  path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
  return {'stdin': subprocess.DEVNULL, 'text': True, 'cwd': ROOT,
          'env': {**os.environ, 'PYTHONPATH': path}, **kwargs}


def run(module, *arguments, timeout=DEADLINE_SECS, **kwargs):
  """Runs a module to its end; returns `subprocess.CompletedProcess`."""
  return subprocess.run(
      [sys.executable, '-m', module, *map(str, arguments)],
      capture_output=True, timeout=timeout, **_options(kwargs))


@contextlib.contextmanager
def running(*arguments, **kwargs):
  """Starts Python with these arguments; yields `Popen`, killed at the end."""
  process = subprocess.Popen(
      [sys.executable, *map(str, arguments)],
      **_options({'stdout': PIPE, 'stderr': PIPE, **kwargs}))
  try:
    yield process
  finally:
    process.kill()
    process.communicate()


def error_line(ran):
  """The one line that a program said of bad input, and nothing else."""
  assert ran.returncode == 2, ran.stderr
  line, = ran.stderr.splitlines()
  assert line.startswith('error: ')
  return line


def wait_until(condition, what, secs=DEADLINE_SECS):
  """Returns the first true value of `condition()`; fails after `secs`."""
  deadline = time.monotonic() + secs
  while True:
    value = condition()
    if value:
      return value
    assert time.monotonic() < deadline, f'waited {secs:.0f} s for {what}'
    time.sleep(0.05)


def is_alive(pid):
  """Whether the process runs: no zombie that nobody has reaped yet."""
  try:
    status = pathlib.Path(f'/proc/{pid}/stat').read_text()
  except OSError:
    return False
  return status.rpartition(')')[2].split()[0] != 'Z'


def pids(*words):
  """Of the processes that have all these words in their command lines."""
  found = []
  for path in pathlib.Path('/proc').glob('[0-9]*'):
    try:
      command = (path / 'cmdline').read_bytes().decode().split('\0')
    except OSError:  # It has just ended.
      continue
    if set(map(str, words)) <= set(command) and is_alive(path.name):
      found.append(int(path.name))
  return found


def kill(pid):
  """What a user's `kill -9` does."""
  os.kill(pid, signal.SIGKILL)
