"""Tests of the shell scripts: well-formed, and clear about what is missing."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from impala_tf.runs import gin_config

ROOT = pathlib.Path(__file__).parent.parent.parent
SCRIPTS = (*sorted((ROOT / 'launch').rglob('*.sh')),
           *sorted((ROOT / 'launch').rglob('*.sbatch')), ROOT / '.ci' / 'run')


def _run(*command, **kwargs):
  return subprocess.run(
      command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
      timeout=100, **kwargs)


def test_scripts_are_executable_and_pass_shellcheck():
  for script in SCRIPTS:
    assert os.access(script, os.X_OK), f'chmod +x {script}'
  # Of the extra 'test', beside the Python that runs this.
  shellcheck = pathlib.Path(sys.executable).with_name('shellcheck')
  checked = _run(shellcheck, '--external-sources', *SCRIPTS)
  assert checked.returncode == 0, checked.stdout


def _checkout(tmp_path):
  """Makes a tree of the scripts alone, for which nothing is installed yet."""
  root = tmp_path / 'a root'
  for script in SCRIPTS:
    copy = root / script.relative_to(ROOT)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(script, copy)
  for name in ('constraints.txt', 'pyproject.toml', 'setup.py'):
    shutil.copy(ROOT / name, root)
  return root


@pytest.mark.parametrize('arguments, words', [
    ((), 'there is no run directory'),
    (('no/such/run',), "there is no run directory 'no/such/run'"),
    (('--port=6007',), 'RUN_DIR comes before the flag --port=6007')])
def test_tensorboard_without_run_directory_ends_with_2(arguments, words):
  ran = _run(ROOT / 'launch' / 'tensorboard.sh', *arguments)
  assert ran.returncode == 2 and len(ran.stderr.splitlines()) == 1
  assert words in ran.stderr


# Usage.

_SHELL_SCRIPTS = [path.relative_to(ROOT).as_posix() for path in SCRIPTS
                  if path.suffix == '.sh']
# They have no flags, and hand on no arguments.
_WITHOUT_FLAGS = [path for path in _SHELL_SCRIPTS
                  if 'reproduce/' in path and 'table1' not in path
                  or path in ('launch/setup.sh', 'launch/usage.sh')]


@pytest.mark.parametrize('script', _SHELL_SCRIPTS)
def test_help_is_the_usage_and_needs_nothing_installed(tmp_path, script):
  root = _checkout(tmp_path)
  link = tmp_path / 'link'
  link.symlink_to(root / script)
  before = sorted(tmp_path.rglob('*'))
  ran = _run(root / script, '--help', cwd=tmp_path)
  assert ran.returncode == 0, ran.stderr
  assert _run(link, '--help', cwd=tmp_path).stdout == ran.stdout
  assert f'\nUsage: {"source " if "usage" in script else ""}{script}' in (
      ran.stdout)
  assert '#' not in ran.stdout and 'set -euo' not in ran.stdout
  assert sorted(tmp_path.rglob('*')) == before


@pytest.mark.parametrize('script, arguments, words', [
    *((script, ['--nonsense'], 'there is no flag --nonsense')
      for script in _WITHOUT_FLAGS),
    ('launch/reproduce/catch.sh', ['a', '-x'], 'there is no flag -x'),
    ('launch/reproduce/catch.sh', [''], 'an argument is empty'),
    ('launch/reproduce/catch.sh', ['a', 'b'],
     "the argument 'b' is one too many"),
    ('launch/reproduce/sweep.sh', [], 'SWEEP is needed'),
    ('launch/reproduce/sweep.sh', ['a'],
     'there is no file configs/sweeps/a.gin'),
    ('launch/reproduce/picture.sh', [], 'PICTURE is needed'),
    ('launch/reproduce/picture.sh', ['a'], "there is no picture 'a'"),
    ('launch/reproduce/run.sh', [], 'CONFIG is needed')])
def test_script_without_flags_refuses_what_it_does_not_know(
    tmp_path, script, arguments, words):
  root = _checkout(tmp_path)
  before = sorted(tmp_path.rglob('*'))
  ran = _run(root / script, *arguments, cwd=tmp_path)
  assert ran.returncode == 2
  line, = ran.stderr.splitlines()
  assert line == f'error: {words}; see {root / script} --help'
  assert not ran.stdout and sorted(tmp_path.rglob('*')) == before


@pytest.mark.parametrize('picture, kept', [
    ('atari_games', 'atari'), ('seven_games', 'atari57'),
    ('vizdoom', 'vizdoom'), ('minigrid_fetch', 'minigrid')])
def test_picture_makes_the_runs_that_are_drawn(tmp_path, picture, kept):
  last = 'ExperimentConfig.log_interval_secs = 7.0'
  *runs, report = _calls_of(
      tmp_path, 'picture.sh', picture, 'some', last,
      stand_ins=['reproduce/run.sh', 'report.sh'])
  for config, run_dir, *bindings in runs:
    assert bindings.pop() == last
    of_docs = ROOT / 'testdata' / kept / pathlib.Path(
        run_dir).relative_to('some') / 'config.gin'
    differences = gin_config.differences(
        gin_config.load(str(ROOT / config), bindings),
        gin_config.load(str(of_docs)))
    # Which no picture shows.
    later = 'ExperimentConfig.log_interval_'
    assert [text for text in differences if not text.startswith(later)] == []
  run_dirs = [run_dir for _, run_dir, *_ in runs]
  assert len(set(run_dirs)) == len(runs) > 1
  assert report == [*run_dirs, '--output=some/report']


def test_picture_of_dmlab_makes_the_runs_that_are_drawn(tmp_path):
  *runs, report = _calls_of(
      tmp_path, 'picture.sh', 'dmlab', 'some',
      stand_ins=['reproduce/run.sh', 'report.sh'])
  kept = (ROOT / 'testdata/curves/dmlab').glob('*.jsonl')
  assert sorted(run_dir for _, run_dir, *_ in runs) == sorted(
      f'some/{path.stem}' for path in kept)
  for config, run_dir, *bindings in runs:
    gin_config.load(str(ROOT / config), bindings)  # Needs no DeepMind Lab.
    level, = [text for text in bindings if 'EnvironmentConfig.level' in text]
    assert level.endswith(f"/{run_dir.removeprefix('some/')}'")
  assert report == [*(run_dir for _, run_dir, *_ in runs),
                    '--output=some/report']


def test_catch_makes_the_runs_that_are_drawn(tmp_path):
  *runs, plot = _calls_of(
      tmp_path, 'catch.sh', 'some', stand_ins=['train.sh', 'plot.sh'])
  kept = ROOT / 'testdata/curves/catch'
  run_dirs = [run[1].removeprefix('--run_dir=') for run in runs]
  assert sorted(run_dirs) == sorted(
      f"some/{path.relative_to(kept).with_suffix('')}"
      for path in kept.glob('*/*.jsonl'))
  for run, run_dir in zip(runs, run_dirs, strict=True):
    of_run = gin_config.load(
        str(ROOT / run[0]),
        [flag.removeprefix('--gin_binding=') for flag in run[2:]])
    assert run_dir == (f'some/learning_rate_{of_run.optimizer.learning_rate}'
                       f'/seed_{of_run.experiment.seed}')
  assert plot == ['some/*/*', '--group_by=directory', '--output=some/catch.png']


@pytest.mark.parametrize('sweep, arguments, displays', [
    ('corrections', [], ['table_2', 'figure_e2', 'figure_e3']),
    ('a3c_optimizers', [], ['rates', 'ranks']),
    ('small_tasks', [], ['variants']),
    ('corrections', ['some', 'ranks', 'variants'], ['ranks', 'variants'])])
def test_sweep_draws_its_displays(tmp_path, sweep, arguments, displays):
  root = _checkout(tmp_path)
  config = f'configs/sweeps/{sweep}.gin'
  (root / config).parent.mkdir(parents=True)
  shutil.copy(ROOT / config, root / config)
  (root / 'launch/setup.sh').write_text('PYTHON=echo\n')
  ran = _run(root / 'launch/reproduce/sweep.sh', sweep, *arguments)
  sweep_dir = arguments[0] if arguments else f'runs/{sweep}'
  assert ran.stdout.splitlines() == [
      f'-m impala_tf sweep {config} --sweep_dir={sweep_dir}',
      *(f'-m lab.figures {display} {sweep_dir}' for display in displays)]


def _calls_of(tmp_path, script, *arguments, stand_ins):
  """Returns the arguments of each call that a script of reproduce/ makes.

  The scripts that it calls are stand-ins that print their arguments, since its
  runs would take up to 14 hours.
  """
  root = _checkout(tmp_path)
  for name in stand_ins:
    (root / 'launch' / name).write_text(
        '#!/usr/bin/env bash\nprintf "%s|" "$@"; echo\n')
  ran = _run(root / 'launch/reproduce' / script, *arguments)
  assert ran.returncode == 0, ran.stderr
  return [line.split('|')[:-1] for line in ran.stdout.splitlines()]


@pytest.mark.slow  # It lints first.
def test_unknown_flag_of_pytest_ends_with_2():
  ran = _run(ROOT / 'launch' / 'test.sh', '--nonsense')
  assert ran.returncode == 2
  assert 'unrecognized arguments: --nonsense' in ran.stderr
