"""Tests of batches on this machine, whose programs hold their sweep's lock."""

import os
import pathlib
import signal

import pytest

from launch.processes import local
from tests.fixtures import batch_contract
from tests.fixtures import programs


@pytest.fixture(name='start')
def _start(tmp_path):

  def start(modes, num_jobs, **kwargs):
    with open(tmp_path / 'lock', 'wb') as lock:
      return batch_contract.run(
          local.make_batch(
              num_jobs, str(tmp_path / 'logs'), batch_contract.ENVIRONMENT,
              lock.fileno()), tmp_path, modes, **kwargs)

  return start


class TestLocalBatch(batch_contract.BatchContract):
  pass


def test_program_holds_the_lock_and_may_be_stopped_by_others(start, tmp_path):
  held = []

  def stop_long(name, unused_ended):
    if name == 'short/0':
      pid, = programs.pids('long', str(tmp_path))
      held.extend(os.readlink(path) for path in
                  pathlib.Path(f'/proc/{pid}/fd').iterdir())
      os.kill(pid, signal.SIGTERM)

  signum, ends = start(['short', 'long'], num_jobs=2, on_end=stop_long)
  assert signum is None
  assert str(tmp_path / 'lock') in held
  assert ends['long/1'].was_stopped and not ends['short/0'].was_stopped
