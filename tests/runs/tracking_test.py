"""Tests that tracking begins with the run, and never holds it up."""

import importlib.machinery
import os
import subprocess

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runs import tracking
from tests.fixtures import fake_wandb
from tests.fixtures import programs


@pytest.fixture(name='calls')
def _calls(tmp_path, monkeypatch):
  """Installs a stand-in for wandb; returns a reader of the calls to it."""
  calls = tmp_path / 'calls.jsonl'
  packages = fake_wandb.install(tmp_path / 'packages')
  monkeypatch.syspath_prepend(packages)
  monkeypatch.setenv('PYTHONPATH', os.pathsep.join(
      [packages, str(programs.ROOT), os.environ.get('PYTHONPATH', '')]))
  monkeypatch.setenv('WANDB_FAKE_CALLS', str(calls))
  yield lambda: [name for name, _ in fake_wandb.read_calls(calls)]
  os.environ.pop('IMPALA_TF_TRACKER', None)


@pytest.fixture(name='run_dir')
def _run_dir(tmp_path):
  run_dir = tmp_path / 'run'
  run_dir.mkdir()
  (run_dir / 'config.gin').write_text(gin_config.dumps(config_lib.Config()))
  (run_dir / 'metrics.jsonl').write_text('{"frames": 1, "x": 2}\n')
  return str(run_dir)


@pytest.mark.slow
def test_hung_service_does_not_hold_the_run_up(
    calls, run_dir, capsys, monkeypatch):
  monkeypatch.setenv('WANDB_FAKE_NETWORK', 'hangs')
  tracking.start(True)
  pid = int(os.environ['IMPALA_TF_TRACKER'].split()[0])
  tracking.start(True)  # As after the program was executed anew: no second.
  assert int(os.environ['IMPALA_TF_TRACKER'].split()[0]) == pid
  with tracking.tracking(True, run_dir, finish_secs=1.):
    programs.wait_until(lambda: 'log' in calls(), 'a row')
  assert 'has not got all rows' in capsys.readouterr().out
  programs.wait_until(lambda: not programs.is_alive(pid), 'its end')


def test_dead_tracker_does_no_harm(calls, run_dir, capsys):
  tracking.start(True)
  pid = int(os.environ['IMPALA_TF_TRACKER'].split()[0])
  programs.kill(pid)
  programs.wait_until(lambda: not programs.is_alive(pid), 'its end')
  with tracking.tracking(True, run_dir):
    subprocess.run(['true'], check=True)  # Python then collects dead children.
  assert 'has not got all rows' in capsys.readouterr().out


# A directory that the package has left behind has a spec without an origin.
@pytest.mark.parametrize('spec', [
    None, importlib.machinery.ModuleSpec('wandb', None)])
def test_missing_package_is_named_in_a_line(monkeypatch, spec):
  monkeypatch.setattr('importlib.util.find_spec', lambda name: spec)
  with pytest.raises(config_lib.UserError, match=r'pip install .*\[wandb\]'):
    tracking.start(True)
