"""Tests of learners that are killed or stopped under the real command."""

import contextlib
import os
import random
import re
import signal
import time

import pytest

from tests.fixtures import programs
from tests.fixtures import two_learners
from tests.fixtures.faults import runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_INTERVAL_SECS = 1.
_OFTEN = runs.bind('ExperimentConfig.checkpoint_interval_secs', _INTERVAL_SECS)


def _learn_a_while(run, rng):
  """Waits for a checkpoint and some random time after it."""
  run.wait_for_checkpoint()
  run.wait_for_frames()
  time.sleep(rng.uniform(0, _INTERVAL_SECS))


def _lost(secs):
  return (f'{max(secs):.1f} s of learning at most, saving every '
          f'{_INTERVAL_SECS:g} s')


def test_learner_is_killed_and_the_same_command_goes_on(tmp_path, fault):
  rng, lost_secs = random.Random(0), []
  with contextlib.ExitStack() as stack:
    run = stack.enter_context(runs.training(tmp_path, _OFTEN))
    for _ in range(fault.tries):
      _learn_a_while(run, rng)
      run.kill_learner()
      with fault.recovery():
        saved = run.newest_checkpoint()
        lost_secs.append(run.check_lost_secs(_INTERVAL_SECS))
        run = stack.enter_context(runs.training(tmp_path, _OFTEN))
        run.wait_for_log(f'Resuming from {tmp_path}/checkpoints/ckpt-{saved} ')
        run.wait_for('updates', saved + 1)
      run.check_rows()
    run.stop()
  fault.report('kill -9 of the learner, the same command again',
               _lost(lost_secs))


def test_one_of_two_learners_is_killed_and_all_go_on(tmp_path, fault):
  rng, lost_secs = random.Random(0), []
  fault.tries = max(2, fault.tries)
  with runs.training(tmp_path, *two_learners.FLAGS, _OFTEN,
                     runs.bind('ActorConfig.max_restarts', 1000)) as run:
    for i in range(fault.tries):
      _learn_a_while(run, rng)
      pids = [two_learners.pid(run.run_dir, learner) for learner in range(2)]
      alive = [*pids, *run.pids('actor')]
      with fault.recovery():
        programs.kill(pids[i % 2])
        run.wait(lambda: not any(map(programs.is_alive, alive)),  # noqa: B023
                 'the end of the others')
        before, saved = run.row()['updates'], run.newest_checkpoint()
        lost_secs.append(run.check_lost_secs(_INTERVAL_SECS))
        run.wait_for_log('Resuming from', i + 1)
        resumed = re.findall(
            r'Resuming from \S*/ckpt-(\d+) at (\d+)', run.log())
        assert resumed[-1] == (
            str(saved), str(saved * two_learners.FRAMES_PER_UPDATE))
        run.wait_for('updates', before + 1)
      assert len(run.pids('actor')) == 2
    code, text = run.interrupt()
  assert code == 130, text + run.log()
  said = re.findall(
      r'^(learner\S*) was killed by SIGKILL(?:, (learner\S*) ended with .* 1)?'
      '; all processes start again, from the last checkpoint: restart', text,
      re.MULTILINE)
  names = ('learner', 'learner_1')
  assert [killed for killed, _ in said] == [
      names[i % 2] for i in range(fault.tries)]
  # The other learner has noticed, unless it was ended first.
  for i, name in enumerate(names):
    log = (tmp_path / 'logs' / f'{name}.log').read_text()
    number = sum(other == name for _, other in said)
    assert log.count(f'has lost learner {1 - i} (localhost:') >= number
  two_learners.check_end(tmp_path)
  fault.report('kill -9 of one of two learners, each in turn', _lost(lost_secs))


def test_learner_is_stopped_for_a_while(tmp_path, fault):
  stop_secs = 30. if fault.is_chaos else 3.
  growth = []
  with runs.training(tmp_path) as run:
    run.wait_for_frames()
    actors, (learner,) = run.pids('actor'), run.pids('learner')
    for _ in range(fault.tries):
      run.wait_for_frames()
      before = [runs.memory_mib(pid) for pid in actors]
      os.kill(learner, signal.SIGSTOP)
      time.sleep(stop_secs)
      growth.append(max(runs.memory_mib(pid) - was
                        for pid, was in zip(actors, before)))
      assert run.process.poll() is None
      with fault.recovery():
        os.kill(learner, signal.SIGCONT)
        run.wait_for_frames(40)
      assert run.pids('actor') == actors  # They waited, and none died.
    run.stop()
  assert max(growth) < 50
  fault.report(f'SIGSTOP of the learner for {stop_secs:.0f} s (actors grew by '
               f'{max(growth):.0f} MiB at most)')


def test_actor_is_stopped_and_the_others_go_on(tmp_path, fault):
  with runs.training(tmp_path, runs.bind('ActorConfig.num_actors', 2)) as run:
    actors = run.wait_for_actors(2)
    run.wait_for_frames(2000)
    for i in range(fault.tries):
      os.kill(actors[i % 2], signal.SIGSTOP)
      run.wait_for_frames(2000)
      os.kill(actors[i % 2], signal.SIGCONT)
      run.wait_for_frames(2000)
      assert run.pids('actor') == actors
    run.stop()
  fault.report('SIGSTOP of one of two actors')
