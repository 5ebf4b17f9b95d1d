"""Tests of agents that share a replay, whose processes are killed."""

import contextlib
import random
import re
import signal
import time

import pytest
import reverb

from impala_tf.runtime import ports
from tests.fixtures import programs
from tests.fixtures.faults import runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_REPLAYING = (runs.bind('ReplayConfig.replay_fraction', 0.5),
              runs.bind('LearnerConfig.batch_size', 16),  # 8 of them new.
              runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.))
_IN_PROCESS = runs.bind('ExperimentConfig.in_process', True)


class _Replay:
  """A shared replay that is started by hand, and may be killed."""

  def __init__(self, directory, num_agents, *arguments):
    self.port = ports.choose()
    self.address = f'localhost:{self.port}'
    self._log = directory / 'replay.log'
    self._command = (
        'replay', f'--address={self.address}', f'--num_agents={num_agents}',
        f'--config={programs.CATCH[0]}', *programs.CATCH[1:], *_REPLAYING,
        *arguments)
    self._stack = contextlib.ExitStack()

  def __enter__(self):
    self.start()
    return self

  def __exit__(self, *unused):
    self._stack.close()

  def start(self):
    self.process = self._stack.enter_context(
        runs.role(self._log, *self._command))

  def served(self):
    """Returns how many unrolls it held at each of its starts."""
    return [int(number.replace(',', '')) for number in re.findall(
        r'replay: serves ([\d,]+) of', self._log.read_text())]

  def wait(self, number):
    """Waits until it serves after so many starts."""
    programs.wait_until(lambda: len(self.served()) == number, 'the replay',
                        runs.DEADLINE_SECS)

  def kill(self):
    programs.kill(self.process.pid)
    self.process.wait()

  def size(self):
    infos = reverb.Client(self.address).server_info(timeout=60)
    return infos['replay'].current_size


def _agent(stack, replay, run_dir, number, *arguments):
  return stack.enter_context(runs.training(
      run_dir, *_REPLAYING, f'--replay_address={replay.address}',
      f'--agent={number}', runs.bind('ExperimentConfig.seed', number),
      *arguments))


def _check_rows(run):
  for row in run.check_rows():
    assert row.get('replayed/policy_lag', 0) >= 0
    assert 0 <= row['replayed/foreign_share'] <= 1


def test_replay_is_killed_and_comes_back(tmp_path, fault):
  """One agent has processes, the other is one; half of the tries save."""
  rng = random.Random(0)
  fault.tries = max(2, fault.tries)
  with contextlib.ExitStack() as stack:
    replay = stack.enter_context(_Replay(
        tmp_path, 2, runs.bind('ReplayConfig.survives_resume', True),
        f'--run_dir={tmp_path / "replay"}'))
    agents = [_agent(stack, replay, tmp_path / 'a', 0),
              _agent(stack, replay, tmp_path / 'b', 1, _IN_PROCESS)]
    for agent in agents:
      agent.wait_for_frames()
    pids = agents[0].pids('actor') + agents[0].pids('learner')
    for i in range(fault.tries):
      time.sleep(rng.uniform(0, 3))
      replay.kill()
      if i == 0:
        agents[0].wait_for_log('does not answer')
      with fault.recovery():
        replay.start()
        replay.wait(i + 2)
        for agent in agents:
          agent.wait_for_frames()  # More than what was read ahead.
    assert agents[0].pids('actor') + agents[0].pids('learner') == pids
    for agent in agents:
      # A single row may be of one agent's unrolls alone: draws are chance, and
      # the other may play slowly.
      row = agent.wait(
          lambda: (row := agent.row())  # noqa: B023
          and 0 < row['replayed/foreign_share'] < 1 and row,
          'unrolls of both agents')
      assert row['own/kl_behaviour_target'] >= 0
    for agent in agents:
      agent.stop()
      _check_rows(agent)
    size = replay.size()
    replay.process.send_signal(signal.SIGTERM)
    assert replay.process.wait(runs.DEADLINE_SECS) == 143
    replay.start()
    replay.wait(fault.tries + 2)
    assert replay.served()[-1] == size  # It saved them at its end.
    assert any(replay.served()[1:-1])  # And sometimes before a kill.
  fault.report('kill -9 of a shared replay', lost='')


def test_learner_of_an_agent_is_killed_and_the_others_wait_for_it(
    tmp_path, fault):
  rng = random.Random(0)
  total = 400_000
  limit = total // 100 + programs.CATCH_FRAMES_PER_UPDATE
  short = runs.bind('ExperimentConfig.total_frames', total)
  with contextlib.ExitStack() as stack:
    replay = stack.enter_context(_Replay(tmp_path, 2))
    other = _agent(stack, replay, tmp_path / 'b', 1, _IN_PROCESS, short)
    run = _agent(stack, replay, tmp_path / 'a', 0, short)
    for _ in range(fault.tries):
      run.wait_for_checkpoint()
      run.wait_for_frames()
      other.wait_for_frames()
      time.sleep(rng.uniform(0, 1))
      run.kill_learner()
      with fault.recovery():
        run = _agent(stack, replay, tmp_path / 'a', 0, short)
        run.wait_for_frames()
      other.wait_for_frames()
    # Frames of either are known some time after they were learned from. The
    # other has not ended: it would be waited for then.
    other.wait(
        lambda: abs(run.row()['frames'] - other.row()['frames']) <= limit,
        'frames of both within the limit')
    for agent in (run, other):
      agent.stop()
      _check_rows(agent)
  fault.report('kill -9 of the learner of an agent that shares a replay',
               lost='')
