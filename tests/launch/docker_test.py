"""The Dockerfile, as far as it can be checked without Docker."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_DOCKERFILE = _ROOT / 'launch' / 'docker' / 'Dockerfile'


def _instructions():
  """Lists (name, arguments), with continued lines joined, without comments."""
  text = re.sub(r'(?m)^#.*\n', '', _DOCKERFILE.read_text())
  lines = text.replace('\\\n', ' ').splitlines()
  return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


@pytest.mark.slow  # It builds the package.
def test_few_files_are_enough_for_the_set_up(tmp_path):
  """All other code is copied later, so that a change of it installs nothing."""
  steps = iter(_instructions())
  for name, arguments in steps:
    if name == 'RUN' and 'setup.sh' in arguments:
      set_up = arguments
      break
    if name == 'COPY':
      *sources, target = arguments.split()
      (tmp_path / target).mkdir(parents=True, exist_ok=True)
      for source in sources:
        shutil.copy(_ROOT / source, tmp_path / target)
  assert next(steps) == ('COPY', '. .')
  # Help needs all that it sources. The package is built without the others.
  script = tmp_path / 'launch' / 'setup.sh'
  ran = subprocess.run([script, '--help'], capture_output=True, text=True,
                       timeout=60)
  assert ran.returncode == 0 and 'Usage' in ran.stdout, ran.stderr
  script.write_text(
      f'#!/bin/sh\n{sys.executable} -m pip install --no-deps --no-index '
      '--no-build-isolation --target site --editable .\n')
  ran = subprocess.run(
      ['sh', '-c', set_up], cwd=tmp_path, env={**os.environ, 'EXTRA': 'cpu'},
      capture_output=True, text=True, timeout=100)
  assert ran.returncode == 0, ran.stderr
  assert list((tmp_path / 'site').glob('impala_tf-*'))


@pytest.mark.parametrize('ignored', ['.venv*', 'runs', '.git'])
def test_files_of_one_machine_stay_out_of_the_image(ignored):
  assert ignored in (_ROOT / '.dockerignore').read_text().splitlines()


def test_commands_are_well_formed():
  script = '\n'.join(['#!/bin/sh', 'EXTRA=cpu'] + [
      arguments for name, arguments in _instructions() if name == 'RUN'])
  checked = subprocess.run(
      [pathlib.Path(sys.executable).with_name('shellcheck'), '-'],
      input=script + '\n', capture_output=True, text=True, timeout=60)
  assert checked.returncode == 0, checked.stdout
