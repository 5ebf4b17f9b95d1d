"""Test of a learner that is killed between the bytes of its parameters."""

import contextlib
import os

import numpy as np
import pytest

from impala_tf.runtime import ports
from tests.fixtures import programs
from tests.fixtures.faults import runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# By name: it changes the process that imports it.
_IMPORT = '--import=tests.fixtures.faults.halting_write'
# 400 unrolls, 24 of which at most were begun before: 16 wait in the queue, and
# each environment of an actor plays one.
_PLAYED_FRAMES = 2_000


class _Processes:
  """Two actors and a learner on one machine, each started by hand."""

  def __init__(self, directory, stack):
    self._directory = directory
    self._stack = stack
    self.run_dir = directory / 'run'
    self.address = f'localhost:{ports.choose()}'
    self.actors = [self._actor(task) for task in range(2)]

  def _actor(self, task):
    return self._stack.enter_context(runs.role(
        self._log(task), 'actor', f'--address={self.address}',
        f'--task={task}'))

  def _log(self, task):
    return self._directory / f'actor_{task}.log'

  def start_learner(self):
    """Starts a learner, or resumes it, with both actors; returns its `Run`."""
    process = self._stack.enter_context(programs.running(
        '-m', 'impala_tf', 'role', 'learner', f'--address={self.address}',
        f'--run_dir={self.run_dir}', _IMPORT, '--config', *programs.CATCH,
        runs.bind('ActorConfig.num_actors', 2), runs.ENDLESS,
        runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.),
        variables={'FAULTS_DIR': str(self._directory)}))
    run = runs.Run(self.run_dir, process)
    run.wait(lambda: self._share_memory(process), 'memory that all share')
    return run

  def _share_memory(self, learner):
    """Returns whether all have the learner's memory, and no other."""
    memories = [runs.parameter_memories(process.pid)
                for process in (learner, *self.actors)]
    return len(memories[0]) == 1 and memories.count(memories[0]) == 3

  def starts_over(self):
    """Counts how often each actor has started over."""
    return np.array([self._log(task).read_text().count('starting over')
                     for task in range(2)])

  def check_actors(self):
    for task, actor in enumerate(self.actors):
      assert actor.poll() is None, self._log(task).read_text()


def _files():
  return {name for name in os.listdir('/dev/shm') if 'impala' in name}


def test_learner_is_killed_between_the_bytes_of_its_parameters(tmp_path, fault):
  halt, halted = tmp_path / 'halt', tmp_path / 'halted'
  files = _files()
  with contextlib.ExitStack() as stack:
    processes = _Processes(tmp_path, stack)
    run = processes.start_learner()
    for _ in range(fault.tries):
      run.wait_for_checkpoint()
      halt.touch()
      run.wait(halted.exists, 'half of the parameters')
      halted.unlink()
      run.wait_for_frames(_PLAYED_FRAMES)
      processes.check_actors()  # Both played on with what they had.
      before = processes.starts_over()
      programs.kill(run.process.pid)
      run.process.wait()
      with fault.recovery():
        programs.wait_until(lambda: all(processes.starts_over() > before),  # noqa: B023
                            'actors that start over', runs.DEADLINE_SECS)
        run = processes.start_learner()
        run.wait_for_frames()
    run.stop()
  assert run.row()['unrolls_refused'] == 0
  assert _files() <= files
  fault.report('kill -9 of the learner between the bytes of its parameters',
               lost='')
