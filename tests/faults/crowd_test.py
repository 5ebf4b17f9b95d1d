"""Test of many actors on one learner: none starves, no memory piles up."""

import json
import pathlib
import re

import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runtime import ports
from tests.fixtures import programs
from tests.fixtures.faults import counting_learner
from tests.fixtures.faults import environments

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(900)]

_DEADLINE_SECS = 600.
_T, _B = 20, 32


def _config():
  return config_lib.Config(
      experiment=config_lib.ExperimentConfig(total_frames=10**9),
      environment=config_lib.EnvironmentConfig(level='catch'),
      agent=config_lib.AgentConfig(torso='mlp', hidden_size=64),
      actor=config_lib.ActorConfig(num_actors=1, num_envs=1),
      learner=config_lib.LearnerConfig(
          batch_size=_B, unroll_length=_T, num_threads=1))


def _memory(pid):
  """Returns the private memory of a process in MiB."""
  text = pathlib.Path(f'/proc/{pid}/smaps_rollup').read_text()
  return sum(map(int, re.findall(r'Private_\w+:\s+(\d+) kB', text))) / 1024


def test_each_of_many_actors_gets_its_share(tmp_path, fault):
  number = 64 if fault.is_chaos else 16
  port = ports.choose()
  path = gin_config.config_path(str(tmp_path))
  pathlib.Path(path).write_text(gin_config.dumps(_config()))
  variables = environments.variables(tmp_path)

  def counts():
    try:
      text = (tmp_path / counting_learner.FILE_NAME).read_text()
    except FileNotFoundError:
      text = '[0]'
    return np.array(json.loads(text) + [0] * number)[:number]

  with programs.running(
      '-m', 'impala_tf', 'role', 'learner', '--supervised',
      counting_learner.IMPORT, f'--run_dir={tmp_path}',
      f'--address=localhost:{port}', stdin=programs.PIPE,
      env=variables) as learner, programs.running(
          '-m', 'tests.fixtures.faults.crowd', path, f'localhost:{port}',
          number, stdin=programs.PIPE) as crowd:
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
      assert learner.poll() is None and crowd.poll() is None
  # Much is allocated for the first time in the first try.
  growth = (memory[-1] - memory[1]) / memory[1]
  assert max(worst) < 0.2
  assert abs(growth) < 0.05
  fault.report(
      f'{number} actors at once (shares off by {max(worst):.0%} at most; the '
      f'learner\'s memory {memory[1]:.0f} MiB, then {growth:+.1%})',
      fault.tries, 0)
