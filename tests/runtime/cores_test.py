"""Actors have cores to themselves, of one run at a time."""

import os
import pathlib
import re

import pytest

from impala_tf import config as config_lib
from impala_tf.runtime import cores
from tests.fixtures import programs
from tests.fixtures.faults import runs

_ALL = sorted(os.sched_getaffinity(0))
_NUM_CORES = len(_ALL)


def _config(num_actors=_NUM_CORES, **values):
  return config_lib.Config(
      actor=config_lib.ActorConfig(num_actors=num_actors, **values))


@pytest.fixture(name='directories')
def _directories(tmp_path):
  """Makes new directories of cores: runs may be under way here."""
  for core in _ALL:
    (tmp_path / f'cpu{core}').mkdir()
  return tmp_path


def _claimed(directories, config=None):
  with cores.claim(config or _config(), directories) as core_of:
    return core_of


@pytest.mark.parametrize('config', [
    _config(_NUM_CORES + 1), _config(_NUM_CORES - 1 or 3),
    _config(pinned=False), _config(env_processes=1)])
def test_actors_move_freely_if_cores_do_not_match_them(directories, config):
  assert _claimed(directories, config) == []


def test_each_actor_has_a_core_and_a_second_run_none_until_the_first_ends(
    directories):
  with cores.claim(_config(), directories) as first:
    assert first == _ALL and _claimed(directories) == []
  assert _claimed(directories) == _ALL


def test_run_that_cannot_have_all_claims_none(directories):
  claim_one = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print('locked', flush=True)
sys.stdin.read()
"""
  with programs.running('-c', claim_one, directories / f'cpu{_ALL[-1]}',
                        stdin=programs.PIPE) as other:
    assert other.stdout.readline() == 'locked\n'
    with cores.claim(_config(), directories) as core_of:
      assert core_of == []
      files = pathlib.Path('/proc/self/fd').iterdir()
      assert not [file for file in files
                  if file.exists() and 'cpu' in os.readlink(file)]
    other.kill()
    other.wait()
    assert _claimed(directories) == _ALL  # However the other has ended.


def test_system_that_shows_no_cores_has_no_claims(tmp_path):
  assert _claimed(tmp_path / 'nowhere') == []


def test_process_stays_on_its_core():
  program = """
import os, sys
from impala_tf.runtime import cores
cores.stay_on(10**4)  # There is none: all is as before.
before = os.sched_getaffinity(0)
cores.stay_on(int(sys.argv[1]))
print(sorted(before), os.sched_getaffinity(0))
"""
  ran = programs.run_code(program, _ALL[-1])
  assert ran.stdout == f'{_ALL} {{{_ALL[-1]}}}\n', ran.stderr


def _core_of(pid):
  """Returns the core in an actor's command; None if there is none."""
  command = pathlib.Path(f'/proc/{pid}/cmdline').read_text()
  flag = re.search(r'--core=(\d+)', command)
  return flag and int(flag.group(1))


@pytest.mark.slow
def test_actors_of_a_real_run_stay_where_they_are(tmp_path):
  one_each = runs.bind('ActorConfig.num_actors', _NUM_CORES)
  with runs.training(tmp_path / 'first', one_each) as first:
    first.wait_for_frames()
    if any(_core_of(pid) is None for pid in first.pids('actor')):
      pytest.skip('another run on this machine has claimed the cores')
    with runs.training(tmp_path / 'second', one_each) as second:
      second.wait_for_frames()
      assert [_core_of(pid) for pid in second.pids('actor')] == (
          [None] * _NUM_CORES)
      second.stop()
    victim = first.pids('actor')[0]
    programs.kill(victim)
    actors = first.wait(
        lambda: len(p := first.pids('actor')) == _NUM_CORES
        and victim not in p and p, 'an actor in its place')
    assert sorted(map(_core_of, actors)) == _ALL
    first.wait(lambda: all(os.sched_getaffinity(pid) == {_core_of(pid)}
                           for pid in actors), 'each on its core')
    learner, = first.pids('learner')
    assert sorted(os.sched_getaffinity(learner)) == _ALL
    first.stop()
