"""Unrolls that would spoil the parameters, sent to a learner at work."""

import contextlib
import os
import signal

import numpy as np
import pytest

from impala_tf import checkpoint
from impala_tf import metrics
from impala_tf import ports
from launch import gin_config
from tests import programs
from tests.faults import environments
from tests.faults import stranger

pytestmark = pytest.mark.timeout(600)

_DEADLINE_SECS = 240.


class _Run:

  def __init__(self, run_dir, port, process):
    self.run_dir = run_dir
    self.address = f'localhost:{port}'
    self.process = process

  def row(self):
    rows = metrics.read_rows(str(self.run_dir))
    return rows[-1] if rows else {
        'frames': 0, 'unrolls_refused': 0, 'updates_skipped': 0}

  def wait(self, condition, what):
    def holds():
      assert self.process.poll() is None, self.process.communicate()
      return condition()
    return programs.wait_until(holds, what, _DEADLINE_SECS)

  def wait_for_frames(self):
    before = self.row()['frames']
    self.wait(lambda: self.row()['frames'] > before + 400, 'frames')

  def log(self):
    return (self.run_dir / 'logs' / 'learner.log').read_text()

  def stop(self):
    """Ends it; all it has learned must be finite."""
    self.process.send_signal(signal.SIGINT)
    _, errors = self.process.communicate(timeout=_DEADLINE_SECS)
    assert self.process.returncode == 130, errors
    agent, frames = checkpoint.load_agent(str(self.run_dir))
    assert frames == self.row()['frames']
    for variable in agent.trainable_variables:
      assert np.all(np.isfinite(variable.numpy())), variable.name


@contextlib.contextmanager
def _training(run_dir, *arguments):
  port = ports.choose()
  with programs.running(
      '-m', 'launch.train', *programs.CATCH, f'--run_dir={run_dir}',
      f'--port={port}', *arguments,
      '--gin_binding=ExperimentConfig.total_frames = 1000000000',
      env=environments.variables(run_dir)) as process:
    run = _Run(run_dir, port, process)
    run.wait_for_frames()
    yield run


@contextlib.contextmanager
def _stranger(run):
  """Yields how to send: task, number and kind to what came of it."""
  with programs.running(
      '-m', 'tests.faults.stranger',
      gin_config.config_path(str(run.run_dir)), run.address,
      stdin=programs.PIPE) as process:

    def send(task, number, kind):
      process.stdin.write(f'{task} {number} {kind}\n')
      process.stdin.flush()
      line = process.stdout.readline()
      assert line, process.stderr.read()
      return line.strip()

    yield send


def test_unrolls_of_strangers_are_refused_and_counted(tmp_path, fault):
  number, sent = 10, 0
  with _training(tmp_path) as run, _stranger(run) as send:
    for _ in range(fault.tries):
      for i, kind in enumerate(stranger.KINDS):
        assert send(700 + i, number, kind) == 'sent'
        sent += number
        run.wait(lambda: run.row()['unrolls_refused'] == sent,  # noqa: B023
                 f'{sent} refusals')
      assert 'start both with the same config' in send(
          709, number, stranger.OTHER_SHAPES)
      run.wait_for_frames()
      assert run.row()['unrolls_refused'] == sent
    # It warns at once, and then once a minute.
    assert 'refused: 1 (numbers that are not finite, from actor 700' in (
        run.log())
    assert run.row()['updates_skipped'] == 0
    run.stop()
  fault.report(f'unrolls that are not finite, or of another config ({sent} '
               'sent)', fault.tries, 0)


_SPOILT = (f'--gin_binding=EnvironmentConfig.level = "{environments.SPOILT}"',)


def _spoil(run_dir, text):
  new = run_dir / 'spoil.new'
  new.write_text(text)
  os.replace(new, run_dir / 'spoil')


@pytest.mark.parametrize('field', ['reward', 'observation'])
def test_environment_that_gives_nan_for_a_while(tmp_path, fault, field):
  with _training(tmp_path, *_SPOILT) as run:
    for _ in range(fault.tries):
      before = run.row()
      _spoil(tmp_path, f'{field} nan 4')
      run.wait(lambda: (run.row()['unrolls_refused'] >  # noqa: B023
                        before['unrolls_refused']), 'refusals')  # noqa: B023
      _spoil(tmp_path, '')
      run.wait_for_frames()
    run.stop()
  assert 'from actor 0' in run.log()
  fault.report(f'an environment that gives NaN ({field}) for a while',
               fault.tries, 0)


def test_environment_that_gives_nothing_but_nan_ends_the_run(tmp_path):
  with _training(tmp_path, *_SPOILT) as run:
    _spoil(tmp_path, 'reward nan 1')
    _, errors = run.process.communicate(timeout=_DEADLINE_SECS)
  assert run.process.returncode == 2
  line = errors.splitlines()[-1]
  assert 'unrolls in a row were refused' in line and 'actor 0' in line


_UNCLIPPED = "--gin_binding=ImpalaConfig.reward_clipping = 'none'"


def test_gradients_that_are_not_finite_for_a_while(tmp_path, fault):
  with _training(tmp_path, *_SPOILT, _UNCLIPPED,
                 '--gin_binding=OptimizerConfig.max_skipped_updates = 100000'
                 ) as run:
    for _ in range(fault.tries):
      before = run.row()
      _spoil(tmp_path, 'reward 1e30 4')  # Finite, but its square is not.
      run.wait(lambda: (run.row()['updates_skipped'] >  # noqa: B023
                        before['updates_skipped'] + 2), 'skipped updates')  # noqa: B023
      _spoil(tmp_path, '')
      run.wait_for_frames()
    assert run.row()['unrolls_refused'] == 0
    run.stop()
  fault.report('rewards of 1e30, whose gradients are not finite', fault.tries,
               0)


def test_nothing_but_gradients_that_are_not_finite_ends_the_run(
    tmp_path, fault):
  for i in range(fault.tries):
    run_dir = tmp_path / str(i)
    with _training(run_dir, *_SPOILT, _UNCLIPPED) as run:
      _spoil(run_dir, 'reward 1e30 1')
      _, errors = run.process.communicate(timeout=_DEADLINE_SECS)
    assert run.process.returncode == 2
    assert '20 updates in a row were skipped' in errors.splitlines()[-1]
    batch = np.load(run_dir / 'skipped_batch.npz')
    assert batch['env_outputs.reward'].max() == np.float32(1e30)
    agent, frames = checkpoint.load_agent(str(run_dir))
    assert frames == run.row()['frames']
    for variable in agent.trainable_variables:
      assert np.all(np.isfinite(variable.numpy())), variable.name
  fault.report('nothing but gradients that are not finite: the run ends',
               fault.tries, 0)
