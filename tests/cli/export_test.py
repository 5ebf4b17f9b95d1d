"""Tests of `impala_tf.cli.export` as a user calls it."""

import base64
import http.server
import json
import os
import re
import threading

import huggingface_hub
import numpy as np
import pytest
import tensorflow as tf

import impala_tf
from impala_tf import config as config_lib
from impala_tf.agents import policy
from impala_tf.agents import saved
from impala_tf.cli import evaluate
from impala_tf.cli import export
from impala_tf.envs import multi_level
from impala_tf.runs import gin_config
from impala_tf.runs import history
from impala_tf.runtime import user_modules
from tests.fixtures import programs
from tests.fixtures import trained_runs


@pytest.fixture(name='run_dir')
def _run_dir(tmp_path):
  (tmp_path / 'run').mkdir()
  return trained_runs.make(tmp_path / 'run', 'catch')


def test_exported_agent_is_played_like_its_run(run_dir, tmp_path, call, capsys):
  output = tmp_path / 'new' / 'agent'
  history.add(str(run_dir), command='train --import own.py')
  assert call(export.main, run_dir, output) == 0
  line = capsys.readouterr().out
  assert re.match(re.escape(
      f'{output} holds ckpt-7 of {run_dir}, 4,321 frames, in ') +
      r'[1-9]\d? kB; try ', line)
  assert line.endswith(f' {output} --episodes=1 --import=FILE.py\n')
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
    (['{run}', '{run}/a', '--checkpoint=best'], 'holds no best checkpoint'),
    (['{run}', '{run}/a', '--card'], 'has no score after 4,321 frames'),
    (['{run}', '{run}/a', '--card', '--format=saved_model'],
     'are for --format=agent')])
def test_what_cannot_work_is_refused_and_nothing_is_left(
    run_dir, refused, arguments, words):
  before = sorted(run_dir.rglob('*'))
  line = refused(export.main, *(a.format(run=run_dir) for a in arguments))
  assert words in line and sorted(run_dir.rglob('*')) == before


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
    run_dir, tmp_path, call, monkeypatch, capsys):
  def fail(*unused):
    raise OSError('no space left')

  monkeypatch.setattr(saved, 'export_agent', fail)
  assert call(export.main, run_dir, tmp_path / 'agent') == 1
  assert capsys.readouterr().err == 'error: no space left\n'
  assert [p.name for p in tmp_path.iterdir()] == ['run']


def test_rounded_agent_has_half_the_size_and_nearly_the_same_policy(
    tmp_path, call):
  run_dir = trained_runs.make(tmp_path, 'catch', agent=config_lib.AgentConfig(
      torso='mlp', hidden_size=256, normalise_observations=True),
      impala=config_lib.ImpalaConfig(popart_step_size=1e-3),
      experiment=config_lib.ExperimentConfig(algorithm='impala_popart'))
  sizes, outputs = [], []
  for flags in [], ['--float16']:
    output = tmp_path / f'agent{len(flags)}'
    assert call(export.main, run_dir, output, *flags) == 0
    data, = output.glob('checkpoints/*.data-*')
    sizes.append(data.stat().st_size)
    loaded = saved.load_agent(str(output))
    assert loaded.num_frames == 4321
    outputs.append([v.numpy() for v in loaded.agent.variables])
  assert sizes[1] < 0.55 * sizes[0]
  for exact, rounded in zip(*outputs):
    assert exact.dtype == rounded.dtype
    np.testing.assert_allclose(rounded, exact, rtol=2**-11, atol=2**-24)
  # As moments of scores and pixels may be, which float16 cannot hold.
  loaded = saved.load_agent(str(tmp_path / 'agent1'))
  shapes = []
  for v in loaded.agent.variables:
    if v.shape.rank < 2 or not v.trainable:
      v.assign(tf.fill(v.shape, tf.cast(123456, v.dtype)))
      shapes.append(v.shape)
  assert (10, 5) in shapes
  saved.export_agent(loaded, str(tmp_path / 'large'), is_float16=True)
  variables = saved.load_agent(str(tmp_path / 'large')).agent.variables
  assert [v.shape for v in variables if np.all(v.numpy() == 123456)] == shapes


def test_card_is_of_the_agent_as_trained(
    run_dir, tmp_path, call, refused, capsys):
  history.add(str(run_dir), command='train x.gin --import=x.py', commit='1a2b')
  history.add(str(run_dir), changed=['ImpalaConfig.discount (1, now 2)'])
  path = run_dir / 'evaluation.json'
  assert call(evaluate.main, run_dir, '--episodes=20') == 0
  assert call(export.main, run_dir, tmp_path / 'agent', '--card') == 0
  capsys.readouterr()
  card = (tmp_path / 'agent' / 'README.md').read_text()
  for row in ('| config | x.gin |', '| command | `train x.gin --import=x.py` |',
              'evaluate DIRECTORY --episodes=1 --import=FILE.py\n',
              '| commit | 1a2b |', '| observations | float32 [10, 5] |',
              '| config changed | ImpalaConfig.discount (1, now 2) |'):
    assert row in card
  whole = path.read_text()
  for other in ({'gin_binding': ['A.b = 1']}, {'trained_frames': 4320},
                {'interrupted': True}):
    path.write_text(json.dumps({**json.loads(whole), **other}))
    assert 'has no score after' in refused(
        export.main, run_dir, tmp_path / 'other', '--card')
  path.write_text(whole)  # Of one of two levels.
  config = run_dir / 'config.gin'
  config.write_text(config.read_text().replace(
      "'catch'", "'catch,catch/mirrored'"))
  assert 'has no score after' in refused(
      export.main, run_dir, tmp_path / 'other', '--card')


def test_shipped_agent_has_a_card_by_an_evaluation_in_the_working_directory(
    tmp_path, monkeypatch, call):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'evaluation.json').write_text('of something else')
  assert call(evaluate.main, 'catch', '--episodes=3') == 0
  assert (tmp_path / 'evaluation.json').read_text() == 'of something else'
  assert call(export.main, 'catch', 'agent', '--card') == 0
  assert (tmp_path / 'agent' / 'replay.mp4').exists()
  make = multi_level.make_environment

  def make_elsewhere(*arguments, **options):
    os.chdir('/')
    environment = make(*arguments, **options)
    environment.render = lambda: None
    return environment

  monkeypatch.setattr(multi_level, 'make_environment', make_elsewhere)
  assert call(export.main, 'catch', 'other', '--card') == 0
  assert not (tmp_path / 'other' / 'replay.mp4').exists()
  card = (tmp_path / 'other' / 'README.md').read_text()
  assert '# impala on catch' in card and 'replay.mp4' not in card


class _Hub(http.server.BaseHTTPRequestHandler):
  """The Hub's answers to an upload, after its OpenAPI description."""

  def do_POST(self):
    body = self.rfile.read(int(self.headers['Content-Length']))
    path = self.path
    url = f'http://127.0.0.1:{self.server.server_port}/me/catch'
    self.server.requests[path] = body
    answer = {}
    self.send_response(401 if self.server.is_refusing else 200)
    if path.endswith('/create'):
      answer = {'url': url}
    elif path.endswith('/preupload/main'):
      answer = {'files': [
          {'path': file['path'], 'uploadMode': 'regular', 'shouldIgnore': False}
          for file in json.loads(body)['files']]}
    elif path.endswith('/commit/main'):
      answer = {'commitUrl': f'{url}/commit/1', 'commitOid': '1'}
    self.end_headers()
    self.wfile.write(json.dumps(answer).encode())

  def do_GET(self):
    self.send_response(404)
    self.end_headers()

  def log_message(self, *unused):
    pass


@pytest.fixture(name='stub_hub')
def _stub_hub():
  with http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Hub) as server:
    server.requests, server.is_refusing = {}, False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.mark.slow  # A process each.
@pytest.mark.parametrize('is_refusing', [False, True])
def test_agent_with_its_card_and_video_goes_to_the_hub(
    run_dir, tmp_path, call, stub_hub, is_refusing):
  stub_hub.is_refusing = is_refusing
  assert call(evaluate.main, run_dir, '--episodes=20') == 0
  output = tmp_path / 'agent'
  ran = programs.run(
      'impala_tf', 'export', run_dir, output, '--push_to_hub=me/catch',
      '--license=apache-2.0', variables={
          'HF_TOKEN': 'x',
          'HF_ENDPOINT': f'http://127.0.0.1:{stub_hub.server_port}'})
  card = huggingface_hub.ModelCard.load(output / 'README.md')
  (result,) = card.data.eval_results
  evaluation = json.loads((run_dir / 'evaluation.json').read_text())
  assert result.metric_value == (
      f'{evaluation["mean"]:.2f} +/- {evaluation["standard_error"]:.2f}')
  assert (result.dataset_name, card.data.license) == ('catch', 'apache-2.0')
  if is_refusing:
    line, = ran.stderr.splitlines()
    assert 'but the Hub has not taken it as me/catch: ' in line
    assert '401' in line and ran.returncode == 1
    return
  assert ran.stdout.endswith(f':{stub_hub.server_port}/me/catch\n')
  commit = stub_hub.requests['/api/models/me/catch/commit/main']
  uploaded = {
      line['value']['path']: base64.b64decode(line['value']['content'])
      for line in map(json.loads, commit.splitlines())
      if line['key'] == 'file'}
  assert uploaded == {
      str(path.relative_to(output)): path.read_bytes()
      for path in output.rglob('*') if path.is_file()}
  assert {'README.md', 'replay.mp4', 'config.gin'} < uploaded.keys()
