"""Tests of the shell scripts: well-formed, and clear about what is missing."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
SCRIPTS = (*sorted((ROOT / 'launch').rglob('*.sh')),
           *sorted((ROOT / 'launch').rglob('*.sbatch')), ROOT / '.ci' / 'run')


def _run(*command, **kwargs):
  return subprocess.run(
      command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
      timeout=60, **kwargs)


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda path: path.name)
def test_script_is_executable_and_well_formed(script):
  assert os.access(script, os.X_OK), f'chmod +x {script}'
  checked = _run('bash', '-n', script)
  assert (checked.returncode, checked.stderr) == (0, '')


def _set_up(tmp_path, pythons):
  """Runs setup.sh in a tree of its own with only these versions of Python."""
  root = tmp_path / 'a root'
  (root / 'launch').mkdir(parents=True)
  shutil.copy(ROOT / 'launch' / 'setup.sh', root / 'launch')
  for name in ('constraints.txt', 'setup.py'):
    shutil.copy(ROOT / name, root)
  path = tmp_path / 'bin'
  path.mkdir()
  for name in ('bash', 'cat', 'dirname', 'env', 'flock', 'sha256sum'):
    (path / name).symlink_to(shutil.which(name))
  for name, script in pythons.items():
    (path / name).write_text(f'#!{path}/bash\n{script}\n')
    (path / name).chmod(0o755)
  ran = _run(root / 'launch' / 'setup.sh', env={'PATH': str(path)})
  assert not (root / '.venv').exists()
  return ran


def test_setup_without_python_says_which_ones_will_do(tmp_path):
  ran = _set_up(tmp_path, {'python3.12': 'exit 0'})
  assert ran.returncode == 2
  assert len(ran.stderr.splitlines()) == 1
  assert 'no Python 3.11, 3.10 or 3.9' in ran.stderr


def test_setup_takes_a_python_that_does_not_run_for_none(tmp_path):
  ran = _set_up(tmp_path, {'python3.11': 'exit 127'})
  assert ran.returncode == 2
  assert 'no Python 3.11, 3.10 or 3.9' in ran.stderr


def test_setup_with_python_without_venv_names_the_package(tmp_path):
  # A Python that runs, but lacks `ensurepip`.
  ran = _set_up(tmp_path, {'python3.10': '[[ "$2" != *ensurepip* ]]'})
  assert ran.returncode == 2
  assert len(ran.stderr.splitlines()) == 1
  assert 'apt install python3.10-venv' in ran.stderr


@pytest.mark.parametrize('arguments', [(), ('no/such/run',)])
def test_tensorboard_without_run_directory_ends_with_2(arguments):
  ran = _run(ROOT / 'launch' / 'tensorboard.sh', *arguments)
  assert ran.returncode == 2
  assert len(ran.stderr.splitlines()) == 1
  assert 'usage: launch/tensorboard.sh RUN_DIR' in ran.stderr
