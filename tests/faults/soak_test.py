"""Test of a run that is disturbed in many ways, for minutes."""

import contextlib
import os
import random
import signal
import time

import pytest

from tests.fixtures import programs
from tests.fixtures.faults import runs

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

_NUM_ACTORS = 2
_FLAGS = (
    runs.bind('ActorConfig.num_actors', _NUM_ACTORS),
    runs.bind('ActorConfig.max_restarts', 1000),
    runs.bind('ActorConfig.restart_window_secs', 0.5),
    runs.bind('ExperimentConfig.checkpoint_interval_secs', 2.))


class _Soak:
  """A run and its disturbances, each of which leaves it at work again."""

  def __init__(self, run_dir, rng):
    self._run_dir = run_dir
    self._rng = rng
    self._stack = contextlib.ExitStack()
    self.start()

  def start(self):
    self._stack.close()
    self.run = self._stack.enter_context(runs.training(self._run_dir, *_FLAGS))
    self.run.wait_for_actors(_NUM_ACTORS)
    self.run.wait(lambda: self.run.pids('learner'), 'a learner')

  def kill_actor(self):
    programs.kill(self._choose_actor())

  def _choose_actor(self):
    return self._rng.choice(
        self.run.wait(lambda: self.run.pids('actor'), 'an actor'))

  def stop_actor(self):
    self._pause(self._choose_actor())

  def stop_learner(self):
    self._pause(*self.run.pids('learner'))

  def _pause(self, pid):
    os.kill(pid, signal.SIGSTOP)
    time.sleep(self._rng.uniform(0, 5))
    os.kill(pid, signal.SIGCONT)

  def fail_to_save(self):
    self.run.limit_files(1)
    time.sleep(5.)
    self.run.limit_files(-1)

  def kill_learner(self):
    self.run.wait_for_checkpoint()
    self.run.kill_learner()
    self.start()

  def kill_supervisor(self):
    self.run.wait_for_checkpoint()
    programs.kill(self.run.process.pid)
    self.run.process.wait()
    self.run.wait_for_end()
    self.start()

  def interrupt(self):
    assert self.run.interrupt()[0] == 130
    self.start()

  def stop(self):
    self.run.stop()
    self._stack.close()


def test_soak(tmp_path, fault):
  secs = 1200. if fault.is_chaos else 180.
  rng = random.Random(0)
  names = ('kill_actor', 'stop_actor', 'stop_learner', 'fail_to_save',
           'kill_learner', 'kill_supervisor', 'interrupt')
  start, done = time.monotonic(), []
  soak = _Soak(tmp_path, rng)
  while time.monotonic() < start + secs or len(done) < len(names):
    soak.run.wait_for_frames(1000)
    done.append(names[len(done) % len(names)])
    with fault.recovery():
      getattr(soak, done[-1])()
      soak.run.wait_for_frames(1000)
    soak.run.check_rows()
  soak.stop()
  best = soak.run.row()['best_episode_return']
  assert best > 0  # It has learned: random play gives -0.6.
  fault.tries = len(done)
  fault.report(f'soak: {len(done)} faults of {len(names)} kinds in '
               f'{time.monotonic() - start:.0f} s (return {best:.2f})', lost='')
