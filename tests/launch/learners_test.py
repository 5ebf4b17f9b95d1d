"""Several learners as programs: under `launch.train`, and started by hand."""

import contextlib
import os
import re
import signal

import pytest

from impala_tf import checkpoint
from impala_tf import metrics
from impala_tf import ports
from tests import programs
from tests.faults import runs

# Each test starts five programs or more that import TensorFlow.
pytestmark = pytest.mark.timeout(900)
_DEADLINE_SECS = 300.
_FRAMES_PER_UPDATE = 2 * programs.CATCH_FRAMES_PER_UPDATE
_TWO = (runs.bind('LearnerConfig.num_learners', 2),
        runs.bind('ActorConfig.num_actors', 2))
_OFTEN = runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.)


def _check_rows(rows):
  """Of all learners' frames; none is written twice."""
  updates = [row['updates'] for row in rows]
  assert updates == sorted(set(updates))
  for row in rows:
    assert row['frames'] == row['updates'] * _FRAMES_PER_UPDATE
    assert 0 <= row['policy_lag'] <= 20


def _pid(run, learner):
  pid, = programs.pids('learner', f'--run_dir={run.run_dir}',
                       f'--task={learner}')
  return pid


def _check_end(run_dir):
  """The last checkpoint is of the last row of either learner."""
  rows, others = (
      metrics.read_rows(str(path)) for path in (run_dir, run_dir / 'learner_1'))
  _check_rows(rows)
  _check_rows(others)
  assert rows[-1]['updates'] == others[-1]['updates']
  # Means of the same numbers, as far as rows are of the same updates.
  for name in ('episodes', 'episode_return'):
    assert rows[-1][name] == others[-1][name]
  assert checkpoint.load_agent(str(run_dir)).num_frames == rows[-1]['frames']


@pytest.mark.slow
@pytest.mark.parametrize('learner', [0, 1])
def test_learner_is_killed_and_all_go_on_from_the_checkpoint(tmp_path, learner):
  with runs.training(tmp_path, *_TWO, _OFTEN) as run:
    run.wait_for_frames()
    run.wait_for_checkpoint()
    run.wait_for_frames()
    others = [_pid(run, 1 - learner), *run.pids('actor')]
    rows, saved = run.rows(), run.newest_checkpoint()
    programs.kill(_pid(run, learner))
    run.wait(lambda: run.log().count('Resuming from') == 1, 'a new start')
    resumed, = re.findall(r'Resuming from \S*/ckpt-(\d+) at', run.log())
    assert int(resumed) >= saved
    run.wait(lambda: run.row()['updates'] > rows[-1]['updates'], 'updates')
    assert not any(map(programs.is_alive, others))
    assert len(run.pids('actor')) == 2
    code, text = run.interrupt()
    assert code == 130, text
    name = 'learner_1' if learner else 'learner'
    # Where the other was quick to notice, it is dead as well by then.
    assert re.search(
        rf'^{name} was killed by SIGKILL(, learner\S* ended with .* 1)?; '
        'all processes start again, from the last checkpoint: restart 1 of 5',
        text, re.MULTILINE), text
  _check_end(tmp_path)
  survivor = tmp_path / 'logs' / ('learner.log' if learner else 'learner_1.log')
  assert f'has lost learner {learner} (localhost:' in survivor.read_text()


@pytest.mark.slow
def test_two_learners_learn_all_frames_and_end(tmp_path):
  with runs.training(
      tmp_path, *_TWO, '--evaluate',
      runs.bind('ExperimentConfig.total_frames', 4000)) as run:
    code, text = run.end()
  assert code == 0, text
  assert '2 learners (as configured)' in text
  assert run.row()['frames'] == 4000
  assert 'restart' not in text
  _check_end(tmp_path)


@contextlib.contextmanager
def _role(log, *arguments):
  with log.open('w') as file, programs.running(
      '-m', 'launch.role', *arguments, stdout=file, stderr=file) as process:
    yield process


def test_learner_by_hand_that_is_asked_to_stop_stops_the_other(tmp_path):
  run_dir = tmp_path / 'run'
  queues, others = ports.choose_free(2), ports.choose_free(2)
  learners = ','.join(f'localhost:{port}' for port in others)
  with contextlib.ExitStack() as stack:

    def start(role, task, *flags):
      log = tmp_path / f'{role}_{task}.log'
      return log, stack.enter_context(_role(
          log, role, f'--task={task}', f'--address=localhost:{queues[task]}',
          *flags))

    flags = [f'--config={programs.CATCH[0]}', *programs.CATCH[1:], *_TWO,
             f'--learners={learners}', f'--run_dir={run_dir}']
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
  _check_end(run_dir)
  assert 'learner 0: waiting for unrolls that actors send' in logs[0]
  for i, log in enumerate(logs):
    assert re.search(rf'^learner {i}: all 2 are there after \d+ s', log, re.M)
    assert f'port {others[i]} is open to every machine' in log
    assert f'N = {i} to 1 in steps of 2' in log
    assert f'the same command with --run_dir={run_dir} resumes' in log
  assert os.listdir(run_dir / 'learner_1')
