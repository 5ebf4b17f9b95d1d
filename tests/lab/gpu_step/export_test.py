"""An exported update, run by JAX in an environment without TensorFlow."""

import json
import os
import subprocess
import sys

import pytest

_NAME = 'shallow_t20_b32_float32'
_DEADLINE_SECS = 900


@pytest.fixture(name='exported', scope='module')
def _exported(tmp_path_factory):
  directory = tmp_path_factory.mktemp('programs')
  subprocess.run(
      [sys.executable, '-m', 'lab.gpu_step.export', directory, _NAME],
      check=True, timeout=_DEADLINE_SECS)
  return directory


@pytest.fixture(name='jax_python', scope='module')
def _jax_python(tmp_path_factory):
  """Makes an environment with JAX and NumPy alone."""
  directory = tmp_path_factory.mktemp('environment')
  subprocess.run([sys.executable, '-m', 'venv', directory], check=True)
  python = directory / 'bin' / 'python'
  installed = subprocess.run(
      [python, '-m', 'pip', 'install', '--quiet', 'jax>=0.10,<0.12', 'numpy'],
      timeout=_DEADLINE_SECS)
  if installed.returncode:
    pytest.skip('JAX cannot be installed here')
  return python


def _run(python, directory):
  return subprocess.run(
      [python, directory / 'run.py', directory, '--seconds=0.1'],
      capture_output=True, text=True, timeout=_DEADLINE_SECS,
      env={**os.environ, 'JAX_PLATFORMS': 'cpu'})


@pytest.mark.nightly
def test_jax_gets_tensorflows_update_and_says_if_not(exported, jax_python):
  assert sum(path.stat().st_size for path in exported.iterdir()) < 5 * 2**20
  done = _run(jax_python, exported)
  assert done.returncode == 0, done.stderr
  row, = json.loads((exported / 'results.json').read_text())['results']
  assert row['worst_difference'] < 1e-4 and row['agrees']
  assert 0 < row['update_ms'] and 0 < row['copy_ms']
  assert row['frames_per_sec'] == pytest.approx(
      4 * 20 * 32 / row['update_ms'] * 1e3)
  assert _NAME in (exported / 'results.md').read_text()

  path = exported / f'{_NAME}.json'
  description = json.loads(path.read_text())
  description['expected']['updates'][0][0] += 1.
  path.write_text(json.dumps(description))
  wrong = _run(jax_python, exported)
  assert wrong.returncode == 1 and 'further off' in wrong.stderr
