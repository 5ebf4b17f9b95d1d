"""Speed-ups in force are read off real processes."""

import contextlib
import os

import pytest

from impala_tf import config as config_lib
from impala_tf.runtime import sizing
from lab.bench import speedups
from tests.fixtures import programs

_WAIT = 'print("ready", flush=True); input()'
_PINNED = 'import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})'
_SHARING = ('import mmap, os; fd = os.memfd_create("impala_tf_parameters"); '
            'os.ftruncate(fd, 4096); m = mmap.mmap(fd, 4096)')
_CONFIG = sizing.fit(config_lib.Config(
    actor=config_lib.ActorConfig(num_envs=12)))


@contextlib.contextmanager
def _processes(*codes):
  """Starts processes that have run these lines; yields their numbers."""
  with contextlib.ExitStack() as stack:
    pids = []
    for code in codes:
      process = stack.enter_context(programs.running(
          '-c', f'{code}\n{_WAIT}', stdin=programs.PIPE))
      assert process.stdout.readline() == 'ready\n'
      pids.append(process.pid)
    yield pids


@pytest.mark.parametrize('codes,words', [
    ((_SHARING, _SHARING), 'through shared memory'),
    (('', ''), 'through Reverb'),
    ((_SHARING, ''), 'through shared memory for 1 of 2 actors')])
def test_shared_memory_is_seen_in_the_actors(codes, words):
  with _processes(*codes) as pids:
    assert speedups.in_force(_CONFIG, pids)['parameters'] == words


def test_learner_that_plays_itself_gets_no_parameters():
  found = speedups.in_force(sizing.fit(config_lib.Config(
      actor=config_lib.ActorConfig(synchronisation='step'))), [])
  assert found['parameters'] == 'none are sent: the learner plays by itself'
  assert found['actors'] == 'within the learner\'s process'


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason='one core')
def test_pinned_actors_are_seen():
  core = min(os.sched_getaffinity(0))
  with _processes(_PINNED, _PINNED) as pids:
    assert speedups.in_force(_CONFIG, pids)['actors'] == (
        f'pinned to a core each: {core}, {core}')
  with _processes(_PINNED, '') as pids:
    assert speedups.in_force(_CONFIG, pids)['actors'] == 'not pinned'
