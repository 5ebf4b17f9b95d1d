"""Tests of batches on this machine, whose programs hold their sweep's lock."""

import os
import pathlib
import signal
import threading

import pytest

from impala_tf.runtime import batch
from impala_tf.runtime import local
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
    if name == 'after_2/0':  # So the other opens no more files.
      pid, = programs.pids('long', str(tmp_path))
      held.extend(os.readlink(path) for path in
                  pathlib.Path(f'/proc/{pid}/fd').iterdir())
      os.kill(pid, signal.SIGTERM)

  signum, ends = start(['after_2', 'long'], num_jobs=2, on_end=stop_long)
  assert signum is None
  assert str(tmp_path / 'lock') in held
  assert ends['long/1'].was_stopped and not ends['after_2/0'].was_stopped


def test_group_runs_at_once_beside_its_server_which_is_restarted_and_ends(
    tmp_path):

  def command(mode, name):
    return ['tests.fixtures.batch_program', mode, name, str(tmp_path)]

  def kill_server_once():
    pid, = programs.wait_until(
        lambda: batch_contract.pids(tmp_path, 'server'), 'the server')
    programs.kill(pid)

  # They end after five starts: of the one before, of both, of the server twice.
  commands = {'before': command('short', 'before'),
              'a': command('after_5', 'a'), 'b': command('after_5', 'b')}
  ends = {}
  killing = threading.Thread(target=kill_server_once)
  killing.start()
  with open(tmp_path / 'lock', 'wb') as lock:
    logs = str(tmp_path / 'logs')
    assert local.make_batch(
        2, logs, batch_contract.ENVIRONMENT, lock.fileno()).run(
            commands, ends.__setitem__, groups=[batch.Group(
                ('a', 'b'), local.make_server(
                    'server', command('long', 'server'), logs,
                    lock.fileno()))]) is None
  killing.join()
  assert ends == dict.fromkeys(commands, batch_contract.WELL)
  assert len(batch_contract.pids(tmp_path, 'server')) == 2
  assert not any(map(programs.is_alive, batch_contract.pids(tmp_path)))
  ended = float((tmp_path / 'times_before').read_text().split()[1])
  for name in ('a', 'b'):  # One place was free, but not two.
    assert float((tmp_path / f'times_{name}').read_text().split()[0]) > ended
