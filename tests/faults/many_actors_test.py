"""Test of many actors on one learner: none starves, no memory piles up."""

import pathlib
import re

import numpy as np
import pytest

from impala_tf.runtime import ports
from tests.fixtures import programs
from tests.fixtures.faults import runs

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

_DEADLINE_SECS = 600.
_T = 20


def _memory(pid):
  """Returns the private memory of a process in MiB."""
  text = pathlib.Path(f'/proc/{pid}/smaps_rollup').read_text()
  return sum(map(int, re.findall(r'Private_\w+:\s+(\d+) kB', text))) / 1024


def test_each_of_many_actors_gets_its_share(tmp_path, fault):
  number = 64 if fault.is_chaos else 16
  address = f'localhost:{ports.choose()}'
  # Each actor's unrolls are of one level: frames by level are frames by actor.
  levels = [f'tmaze/{i + 1}' for i in range(number)]
  config = ('configs/impala.gin', runs.ENDLESS, *(
      runs.bind(name, value) for name, value in {
          'EnvironmentConfig.level': ','.join(levels),
          'AgentConfig.torso': 'mlp', 'AgentConfig.hidden_size': 64,
          'ActorConfig.num_actors': number, 'ActorConfig.num_envs': 1,
          'LearnerConfig.batch_size': 32, 'LearnerConfig.unroll_length': _T,
          'LearnerConfig.num_threads': 1,
          'ExperimentConfig.log_interval_secs': 0.5}.items()))
  with programs.running(
      '-m', 'impala_tf', 'role', 'learner', f'--run_dir={tmp_path}',
      f'--address={address}', '--config', *config) as learner:
    run = runs.Run(tmp_path, learner)
    run.wait((tmp_path / 'config.gin').exists, 'a config')
    with programs.running(
        '-m', 'tests.fixtures.faults.thin_actors', tmp_path / 'config.gin',
        address, number, stdin=programs.PIPE) as actors:

      def counts():
        return np.array([run.row().get(f'level/{level}/frames', 0) / _T
                         for level in levels])

      worst, memory = [], []
      programs.wait_until(lambda: counts().min() > 0, 'all of them',
                          _DEADLINE_SECS)
      for _ in range(fault.tries + 1):
        before = counts()
        programs.wait_until(
            lambda: (counts() - before).sum() >= 200 * number,  # noqa: B023
            '200 unrolls of each', _DEADLINE_SECS)
        shares = (counts() - before) / np.mean(counts() - before)
        worst.append(np.abs(shares - 1.).max())
        memory.append(_memory(learner.pid))
        assert learner.poll() is None and actors.poll() is None
  # Much is allocated for the first time in the first try.
  growth = (memory[-1] - memory[1]) / memory[1]
  assert max(worst) < 0.2
  assert abs(growth) < 0.05
  fault.report(
      f'{number} actors at once (shares off by {max(worst):.0%} at most; the '
      f'learner\'s memory {memory[1]:.0f} MiB, then {growth:+.1%})')
