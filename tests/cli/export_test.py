"""Tests of `impala_tf.cli.export` as a user calls it."""

import json

import numpy as np
import pytest
import tensorflow as tf

import impala_tf
from impala_tf import config as config_lib
from impala_tf.agents import policy
from impala_tf.agents import saved
from impala_tf.cli import evaluate
from impala_tf.cli import export
from impala_tf.runs import gin_config
from impala_tf.runtime import user_modules
from tests.fixtures import programs
from tests.fixtures import trained_runs


@pytest.fixture(name='run_dir')
def _run_dir(tmp_path):
  (tmp_path / 'run').mkdir()
  return trained_runs.make(
      tmp_path / 'run', 'catch', agent=config_lib.AgentConfig(
          torso='mlp', hidden_size=4))


def test_exported_agent_is_played_like_its_run(run_dir, tmp_path, call, capsys):
  output = tmp_path / 'new' / 'agent'
  assert call(export.main, run_dir, output) == 0
  assert f'{output} holds ckpt-7 of {run_dir}, 4,321 frames, in 0.0 MB' in (
      capsys.readouterr().out)
  assert {p.name for p in output.iterdir()} == {'config.gin', 'checkpoints'}
  assert [p.name for p in output.parent.iterdir()] == ['agent']
  assert gin_config.load(str(output / 'config.gin')) == (
      gin_config.load(str(run_dir / 'config.gin')))
  returns = []
  for path in run_dir, output:
    assert call(evaluate.main, path, '--episodes=20') == 0
    returns.append(json.loads((path / 'evaluation.json').read_text()))
  assert returns[0] == returns[1]
  assert policy.load_policy(str(output)).act(
      np.zeros((10, 5), np.float32)) in range(3)


def test_saved_model_is_written_instead(run_dir, tmp_path, call, capsys):
  output = tmp_path / 'model'
  assert call(export.main, run_dir, output, '--format=saved_model') == 0
  assert f"try model = tf.saved_model.load('{output}')" in (
      capsys.readouterr().out)
  model = tf.saved_model.load(str(output))
  action = model.act(
      {'observation': np.zeros((1, 10, 5), np.float32)}, (), [1, 2], True)
  assert action['action'] == impala_tf.load_policy(
      str(run_dir), deterministic=True).act(np.zeros((1, 10, 5), np.float32))


@pytest.mark.parametrize('arguments, words', [
    (['{run}', '{run}'], 'is there already; choose another directory'),
    (['{run}/checkpoints', 'x'], 'holds no config.gin'),
    (['{run}', 'gs://a/b'], 'output must be a path'),
    (['{run}', '{run}/config.gin/a'], 'cannot be written'),
    (['{run}', '{run}/a', '--checkpoint=best'], 'holds no best checkpoint')])
def test_what_cannot_work_is_refused_and_nothing_is_left(
    run_dir, refused, arguments, words):
  before = sorted(run_dir.rglob('*'))
  line = refused(export.main, *(a.format(run=run_dir) for a in arguments))
  assert words in line
  assert sorted(run_dir.rglob('*')) == before


@pytest.mark.slow  # Each program is another process.
@pytest.mark.usefixtures('modules_forgotten')
def test_agent_with_a_torso_of_ones_own_needs_its_file(tmp_path):
  file = str(trained_runs.OWN_TORSO_PATH)
  user_modules.load([file])
  run_dir, output = tmp_path / 'run', tmp_path / 'agent'
  run_dir.mkdir()
  trained_runs.make(run_dir, 'catch', agent=config_lib.AgentConfig(
      torso='own_torso', hidden_size=4))
  ran = programs.run('impala_tf', 'export', run_dir, output)
  assert '--import=FILE.py' in programs.error_line(ran)
  ran = programs.run('impala_tf', 'export', run_dir, output, f'--import={file}')
  assert f'--episodes=1 --import={file}\n' in ran.stdout


def test_agent_that_cannot_be_written_leaves_nothing(
    run_dir, tmp_path, call, monkeypatch):
  def fail(*unused):
    raise OSError('no space left')

  monkeypatch.setattr(saved, 'export_agent', fail)
  with pytest.raises(OSError):
    call(export.main, run_dir, tmp_path / 'agent')
  assert [p.name for p in tmp_path.iterdir()] == ['run']
