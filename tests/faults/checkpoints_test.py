"""Tests of checkpoints whose writing is cut short, or has no room."""

import contextlib
import random
import subprocess
import time

import psutil
import pytest

from impala_tf.agents import saved
from tests.fixtures import programs
from tests.fixtures.faults import runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# A program that imports TensorFlow once. For each line of its input it forks a
# process that restores and then saves again and again: 16 MB, all of which hold
# the number of the checkpoint. Each is better than the one before.
_SAVER = """
import ctypes, os, signal, sys
import tensorflow as tf
from impala_tf.storage import checkpoint

def number_of(values):
  number = int(values.parts[0][0, 0])
  for variable in values.parts:
    assert bool(tf.reduce_all(variable == number)), 'values of several'
  return number

def save_for_ever():
  ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # When its parent dies.
  values = tf.Module()
  values.parts = [tf.Variable(tf.zeros([1000, 1000])) for _ in range(4)]
  saver = checkpoint.Checkpointer(sys.argv[1], 3, values=values)
  best = checkpoint.find_best(sys.argv[1])
  if best:
    checkpoint.restore({'values': values}, [best.path], whole=True)
    assert number_of(values) == best.number == best.score
  saver.restore()
  number = number_of(values)
  # The newest is the best, unless it was killed in between.
  assert number - (best.number if best else 0) <= 1, 'a best one was lost'
  print(number, os.getpid(), flush=True)
  while True:
    number += 1
    for variable in values.parts:
      variable.assign(tf.fill([1000, 1000], float(number)))
    saver.save(number, score=float(number))
    with open(sys.argv[2], 'w') as file:
      file.write(str(number))

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
  if not os.fork():
    save_for_ever()
"""


def test_writer_is_killed_between_the_bytes(tmp_path, fault):
  rng = random.Random(0)
  directory, said = tmp_path / 'checkpoints', tmp_path / 'said'
  said.write_text('0')
  saved = within = 0
  fault.tries = max(3, fault.tries)
  with programs.running(
      '-c', _SAVER, tmp_path, said, stdin=programs.PIPE) as process:
    for _ in range(fault.tries):
      restored, pid = map(int, programs.ask(process).split())
      assert restored >= saved  # Nothing that was written is lost.
      names = {path.name for path in directory.glob('ckpt-*')}
      # Nor do files pile up: those of three checkpoints, the one restored, one
      # written but not yet listed, and one that is being written.
      assert len(names) <= 2 * 6, names
      assert len(list(directory.glob('best-*'))) <= 2 * 3
      # Once it has written one, it is sure to be writing another.
      programs.wait_until(lambda: said.read_text() not in ('', str(saved)),  # noqa: B023
                          'a checkpoint')
      time.sleep(rng.uniform(0, 0.1))
      programs.kill(pid)
      programs.wait_until(lambda: not programs.is_alive(pid), 'its end')  # noqa: B023
      saved = int(said.read_text() or saved)
      within += any('temp' in path.name for path in directory.iterdir())
  assert within or fault.tries < 20
  fault.report(f'kill -9 of a process that writes checkpoints ({within} of '
               f'them between the bytes)')


# Makes checkpoints of a megabyte, larger than other files of the run: rows and
# logs do not reach the limit for minutes.
_HIDDEN_SIZE = 256
_LIMIT_BYTES = 600_000


@contextlib.contextmanager
def _training(run_dir):
  """Starts a run that saves five times a second; yields a `runs.Run`."""
  with runs.training(
      run_dir, runs.bind('ExperimentConfig.checkpoint_interval_secs', 0.2),
      runs.bind('AgentConfig.hidden_size', _HIDDEN_SIZE)) as run:
    run.wait_for_checkpoint()
    yield run


def _break_for_a_while(run, breaks, mends):
  """Has checkpoints fail; an older one stays usable, and others follow."""
  breaks()
  run.wait_for_more('checkpoints_failed')
  usable = saved.load_agent(str(run.run_dir)).num_frames
  run.wait_for_frames()
  assert saved.load_agent(str(run.run_dir)).num_frames == usable
  mends()
  run.wait_for_checkpoint()


def test_run_that_cannot_save_goes_on_and_says_so_at_its_end(tmp_path, fault):
  """Limits the size of files, which takes no rights of root."""
  with _training(tmp_path) as run:
    for _ in range(fault.tries):
      _break_for_a_while(run, lambda: run.limit_files(_LIMIT_BYTES),
                         lambda: run.limit_files(-1))
    run.limit_files(_LIMIT_BYTES)
    run.wait_for_more('checkpoints_failed')
    code, text = run.interrupt()
  assert code == 1 and 'could not be written' in text, text
  assert 'No checkpoint, training goes on' in run.log()
  newest = run.newest_checkpoint()
  with _training(tmp_path) as run:  # It resumes from the last that was written.
    assert f'ckpt-{newest} at' in run.log()
    run.stop()
  fault.report('checkpoints that fail (no file may grow)')


@contextlib.contextmanager
def _mounted(path, size_mb):
  """Mounts a new file system at `path`; skips if that is not allowed."""
  path.mkdir(parents=True, exist_ok=True)
  mount = subprocess.run(
      ['mount', '-t', 'tmpfs', '-o', f'size={size_mb}m', 'faults', path],
      capture_output=True, check=False)
  if mount.returncode:
    pytest.skip('mounting is not allowed')
  try:
    yield
  finally:
    subprocess.run(['umount', '--lazy', path], check=True)


def _fill(path, leave):
  """Fills the file system of `path` but for about `leave` bytes."""
  filler = path / 'filler'
  with open(filler, 'wb', buffering=0) as file:
    with contextlib.suppress(OSError):
      while file.write(bytes(65536)):
        pass
    file.truncate(max(0, file.tell() - leave))
  return filler


def test_disk_is_full_for_a_while(tmp_path, fault):
  run_dir = tmp_path / 'run'
  with _mounted(run_dir, 24), _training(run_dir) as run:
    for i in range(fault.tries):
      before = run.row()['checkpoints_failed']
      filler = _fill(run_dir, leave=(0, 300_000)[i % 2])
      if i % 2:  # Rows still fit.
        run.wait_for_more('checkpoints_failed')
      else:
        # No row can be written that could be waited for. While it works for a
        # second it tries to save, however slow the machine is.
        learner = psutil.Process(*run.pids('learner'))
        start = learner.cpu_times().user
        run.wait(lambda: learner.cpu_times().user > start + 1, 'work')  # noqa: B023
      assert run.process.poll() is None
      saved.load_agent(str(run_dir))
      filler.unlink()
      run.wait_for_checkpoint()
      run.wait_for('checkpoints_failed', before + 1)
    _fill(run_dir, leave=0)
    code, text = run.interrupt()
    assert code == 1, text
  fault.report('disk full while training')


def _remount(path, how):
  def done():
    return not subprocess.run(['mount', '-o', f'remount,{how}', path],
                              capture_output=True, check=False).returncode
  # The system refuses while a checkpoint is being written.
  programs.wait_until(done, f'{path} to become {how}')


def test_checkpoints_become_read_only_for_a_while(tmp_path, fault):
  directory = tmp_path / 'checkpoints'
  with contextlib.ExitStack() as stack:
    run = stack.enter_context(_training(tmp_path))
    description = (directory / 'agent.json').read_text()
    stack.enter_context(_mounted(directory, 24))
    (directory / 'agent.json').write_text(description)
    run.wait_for_checkpoint()
    for _ in range(fault.tries):
      _break_for_a_while(run, lambda: _remount(directory, 'ro'),
                         lambda: _remount(directory, 'rw'))
    run.stop()
  fault.report('checkpoints on a file system that becomes read-only')


def test_new_run_on_a_full_or_read_only_disk_is_refused(tmp_path):
  disk = tmp_path / 'disk'
  with _mounted(disk, 1):
    _fill(disk, leave=0)
    for words in 'No space left', 'not writable':
      line = programs.error_line(programs.run(
          'impala_tf', 'train', *programs.CATCH, f'--run_dir={disk}/run'))
      assert 'cannot be written' in line and words in line
      assert not (disk / 'run' / 'config.gin').exists()
      _remount(disk, 'ro')
