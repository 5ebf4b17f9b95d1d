"""A learner that is killed, or stopped for a while, under the real command."""

import contextlib
import os
import pathlib
import random
import re
import signal
import time

import pytest

from impala_tf import metrics
from tests import programs

pytestmark = pytest.mark.timeout(600)

_DEADLINE_SECS = 240.
_INTERVAL_SECS = 1.


class _Run:

  def __init__(self, run_dir, process):
    self.run_dir = run_dir
    self.process = process

  def pids(self, role):
    return programs.pids(role, f'--run_dir={self.run_dir}')

  def rows(self):
    return metrics.read_rows(str(self.run_dir))

  def frames(self):
    rows = self.rows()
    return rows[-1]['frames'] if rows else 0

  def wait(self, condition, what):
    def holds():
      assert self.process.poll() is None, self.process.communicate()
      return condition()
    return programs.wait_until(holds, what, _DEADLINE_SECS)

  def wait_for_frames(self, number=400):
    before = self.frames()
    self.wait(lambda: self.frames() > before + number, 'frames')

  def log(self):
    return (self.run_dir / 'logs' / 'learner.log').read_text()

  def stop(self):
    self.process.send_signal(signal.SIGINT)
    _, errors = self.process.communicate(timeout=_DEADLINE_SECS)
    assert self.process.returncode == 130, errors


@contextlib.contextmanager
def _training(run_dir, *arguments):
  with programs.running(
      '-m', 'launch.train', *programs.CATCH, f'--run_dir={run_dir}', *arguments,
      '--gin_binding=ExperimentConfig.total_frames = 1000000000',
      '--gin_binding=ExperimentConfig.checkpoint_interval_secs = '
      f'{_INTERVAL_SECS}') as process:
    yield _Run(run_dir, process)


def _newest(run_dir):
  return max((int(path.stem[len('ckpt-'):]) for path in
              (run_dir / 'checkpoints').glob('ckpt-*.index')), default=0)


def _kill(run, rng):
  """Kills the learner some time after a checkpoint; returns the last rows."""
  before = _newest(run.run_dir)
  run.wait(lambda: _newest(run.run_dir) > before, 'a checkpoint')
  run.wait_for_frames()
  time.sleep(rng.uniform(0, _INTERVAL_SECS))
  learner, = run.pids('learner')
  rows = run.rows()
  programs.kill(learner)
  _, errors = run.process.communicate(timeout=_DEADLINE_SECS)
  assert run.process.returncode == 1
  assert 'the learner was killed by SIGKILL' in errors
  assert not programs.pids(f'--run_dir={run.run_dir}')
  return rows


def test_learner_is_killed_and_the_same_command_goes_on(tmp_path, fault):
  rng = random.Random(0)
  recovery_secs, lost_secs = [], []
  with contextlib.ExitStack() as stack:
    run = stack.enter_context(_training(tmp_path))
    for _ in range(fault.tries):
      rows = _kill(run, rng)
      killed = time.monotonic()
      saved = _newest(tmp_path)
      kept = [row['secs'] for row in rows if row['updates'] <= saved]
      lost_secs.append(rows[-1]['secs'] - kept[-1])
      # Rows come five times a second, and to save takes time too.
      assert lost_secs[-1] < _INTERVAL_SECS + 5.
      run = stack.enter_context(_training(tmp_path))
      line = f'Resuming from {tmp_path}/checkpoints/ckpt-{saved} '
      run.wait(lambda: line in run.log(), line)  # noqa: B023
      run.wait(lambda: run.rows()[-1]['updates'] > saved, 'an update')  # noqa: B023
      recovery_secs.append(time.monotonic() - killed)
      updates = [row['updates'] for row in run.rows()]
      assert updates == sorted(set(updates))
    run.stop()
  fault.report(
      'kill -9 of the learner, the same command again', fault.tries,
      f'{max(lost_secs):.1f} s of learning at most, saving every '
      f'{_INTERVAL_SECS:g} s', recovery_secs)


def _rss(pid):
  """Resident memory in MiB."""
  text = pathlib.Path(f'/proc/{pid}/status').read_text()
  return int(re.search(r'VmRSS:\s+(\d+) kB', text).group(1)) / 1024


def test_learner_is_stopped_for_a_while(tmp_path, fault):
  stop_secs = 30. if fault.is_chaos else 3.
  recovery_secs, growth = [], []
  with _training(tmp_path) as run:
    run.wait_for_frames()
    actors, (learner,) = run.pids('actor'), run.pids('learner')
    for _ in range(fault.tries):
      run.wait_for_frames()
      before = [_rss(pid) for pid in actors]
      os.kill(learner, signal.SIGSTOP)
      time.sleep(stop_secs)
      growth.append(max(_rss(pid) - was for pid, was in zip(actors, before)))
      assert run.process.poll() is None
      start = time.monotonic()
      os.kill(learner, signal.SIGCONT)
      run.wait_for_frames(40)
      recovery_secs.append(time.monotonic() - start)
      assert run.pids('actor') == actors  # They have waited, none has died.
    run.stop()
  assert max(growth) < 50
  fault.report(f'SIGSTOP of the learner for {stop_secs:.0f} s (actors grew by '
               f'{max(growth):.0f} MiB at most)', fault.tries, 0, recovery_secs)


def test_actor_is_stopped_and_the_others_go_on(tmp_path, fault):
  with _training(tmp_path, '--gin_binding=ActorConfig.num_actors = 2') as run:
    run.wait(lambda: len(run.pids('actor')) == 2, 'actors')
    run.wait_for_frames(2000)
    actors = run.pids('actor')
    for i in range(fault.tries):
      os.kill(actors[i % 2], signal.SIGSTOP)
      run.wait_for_frames(2000)
      os.kill(actors[i % 2], signal.SIGCONT)
      run.wait_for_frames(2000)
      assert run.pids('actor') == actors
    run.stop()
  fault.report('SIGSTOP of one of two actors', fault.tries, 0)
