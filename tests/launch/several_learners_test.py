"""Tests of several learners, under `cli.train` and started by hand."""

import contextlib
import os
import re
import signal

import pytest

from impala_tf.runs import metrics
from impala_tf.runtime import ports
from tests.fixtures import programs
from tests.fixtures import two_learners
from tests.fixtures.faults import runs

# Each test starts five programs or more that import TensorFlow. Deaths of
# learners are in tests/faults.
pytestmark = pytest.mark.timeout(900)
_DEADLINE_SECS = 300.


@pytest.mark.slow
def test_two_learners_learn_all_frames_and_end(tmp_path):
  with runs.training(
      tmp_path, *two_learners.FLAGS, '--evaluate',
      runs.bind('ExperimentConfig.total_frames', 4000)) as run:
    code, text = run.end()
  assert code == 0, text
  assert '2 learners (as configured)' in text
  assert run.row()['frames'] == 4000
  assert 'restart' not in text
  two_learners.check_end(tmp_path)


@pytest.mark.slow
def test_learner_by_hand_that_is_asked_to_stop_stops_the_other(tmp_path):
  run_dir = tmp_path / 'run'
  queues = ports.choose_free(2)
  others = ports.choose_free(2, besides=queues)
  learners = ','.join(f'localhost:{port}' for port in others)
  with contextlib.ExitStack() as stack:

    def start(role, task, *flags):
      log = tmp_path / f'{role}_{task}.log'
      return log, stack.enter_context(runs.role(
          log, role, f'--task={task}', f'--address=localhost:{queues[task]}',
          *flags))

    flags = [f'--config={programs.CATCH[0]}', *programs.CATCH[1:],
             *two_learners.FLAGS, f'--learners={learners}',
             f'--run_dir={run_dir}']
    started = [start('learner', i, *flags) for i in range(2)]
    for i in range(2):
      start('actor', i)

    def frames():
      rows = metrics.read_rows(str(run_dir)) if run_dir.exists() else ()
      return rows[-1]['frames'] if rows else 0

    programs.wait_until(lambda: frames() >= 400, 'frames', _DEADLINE_SECS)
    started[1][1].send_signal(signal.SIGTERM)
    codes = [process.wait(_DEADLINE_SECS) for _, process in started]
    logs = [log.read_text() for log, _ in started]
  assert codes == [143, 143], logs
  two_learners.check_end(run_dir)
  assert 'learner 0: waiting for unrolls that actors send' in logs[0]
  for i, log in enumerate(logs):
    assert re.search(rf'^learner {i}: all 2 are there after \d+ s', log, re.M)
    assert f'port {others[i]} is open to every machine' in log
    assert f'N = {i} to 1 in steps of 2' in log
  assert f'the same command with --run_dir={run_dir} resumes' in logs[0]
  assert 'learner 0 writes the checkpoint' in logs[1]
  assert os.listdir(run_dir / 'learner_1')
