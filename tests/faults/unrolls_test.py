"""Tests of unrolls that would spoil the parameters of a live learner."""

import contextlib

import numpy as np
import pytest

from impala_tf.runtime import ports
from tests.fixtures import programs
from tests.fixtures.faults import environments
from tests.fixtures.faults import runs
from tests.fixtures.faults import stranger

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@contextlib.contextmanager
def _training(run_dir, *arguments):
  with runs.training(run_dir, *arguments) as run:
    run.wait_for_frames()
    yield run


def test_unrolls_of_strangers_are_refused_and_counted(tmp_path, fault):
  number, sent = 10, 0
  port = ports.choose()
  with _training(tmp_path, f'--port={port}') as run, programs.running(
      '-m', 'tests.fixtures.faults.stranger', tmp_path / 'config.gin',
      f'localhost:{port}', stdin=programs.PIPE) as process:

    def send(task, number, kind):
      return programs.ask(process, f'{task} {number} {kind}')

    for _ in range(fault.tries):
      for i, (kind, count) in enumerate((
          *((kind, number) for kind in stranger.KINDS),
          (stranger.UNCHECKED_SHAPES, 1))):
        assert send(700 + i, count, kind) == 'sent'
        sent += count
        run.wait_for('unrolls_refused', sent)
      assert 'start both with the same config' in send(
          709, number, stranger.OTHER_SHAPES)
      run.wait_for_frames()
      assert run.row()['unrolls_refused'] == sent
    # The learner warns at once, and then once a minute.
    assert 'refused: 1 (numbers that are not finite, from actor 700' in (
        run.log())
    assert run.row()['updates_skipped'] == 0
    run.stop()
  fault.report('unrolls that are not finite, of another config or other '
               f'shapes ({sent} sent)')


_SPOILT = (environments.IMPORT,
           runs.bind('EnvironmentConfig.level', environments.SPOILT))
_UNCLIPPED = runs.bind('ImpalaConfig.reward_clipping', 'none')
_PATIENT = runs.bind('OptimizerConfig.max_skipped_updates', 100_000)


@pytest.mark.parametrize('spoilt, column, flags', [
    ('reward nan', 'unrolls_refused', ()),
    ('observation nan', 'unrolls_refused', ()),
    # Finite, but its square is not.
    ('reward 1e30', 'updates_skipped', (_UNCLIPPED, _PATIENT))])
def test_environment_spoils_gradients_for_a_while(
    tmp_path, fault, spoilt, column, flags):
  with _training(tmp_path, *_SPOILT, *flags) as run:
    for _ in range(fault.tries):
      environments.spoil(tmp_path, f'{spoilt} 4')
      run.wait_for_more(column, 3)
      environments.spoil(tmp_path, '')
      run.wait_for_frames()
    row = run.row()
    assert {name for name in ('unrolls_refused', 'updates_skipped')
            if row[name]} == {column}
    run.stop()
  assert 'nan' not in spoilt or 'from actor 0' in run.log()
  fault.report(f'an environment that gives {spoilt} for a while')


@pytest.mark.parametrize('spoilt, words', [
    ('nan', 'unrolls in a row were refused'),
    ('1e30', '20 updates in a row were skipped')])
def test_nothing_but_rewards_that_spoil_gradients_ends_the_run(
    tmp_path, fault, spoilt, words):
  for i in range(fault.tries):
    run_dir = tmp_path / str(i)
    with _training(run_dir, *_SPOILT, _UNCLIPPED) as run:
      environments.spoil(run_dir, f'reward {spoilt} 1')
      code, text = run.end()
    line = text.splitlines()[-1]
    assert code == 2 and words in line
    if spoilt == 'nan':
      assert 'actor 0' in line
    else:
      batch = np.load(run_dir / 'skipped_batch.npz')
      assert batch['env_outputs.reward'].max() == np.float32(1e30)
    run.check_parameters()
  fault.report(f'nothing but rewards of {spoilt}: the run ends')
