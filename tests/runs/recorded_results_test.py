"""Scores are recorded with their origin, once an agent and protocol."""

from concurrent import futures
import hashlib
import os
import shlex
import shutil

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runs import history
from impala_tf.runs import recorded_results
from tests.fixtures import sweep_results

_EVALUATION = {'level': 'atari/pong', 'trained_frames': 2000, 'mean': 19.255,
               'standard_error': 0.1, 'episodes': 200, 'deterministic': False,
               'checkpoint': 'ckpt-2'}


@pytest.fixture(name='run')
def _run(tmp_path):
  """Makes the directory of a run that was started twice."""
  run_dir = sweep_results.write_metrics(tmp_path / 'run', [
      {'frames': 1000 * n, 'updates': n, 'secs': 60. * n - 30}
      for n in (1, 2, 3)])
  config = config_lib.Config(experiment=config_lib.ExperimentConfig(seed=7))
  (run_dir / 'config.gin').write_text(gin_config.dumps(config))
  for machine in 'first', 'second':
    history.add(str(run_dir), machine=machine, commit='abc-dirty',
                command=shlex.join(['impala-tf', 'train', 'my own/pong.gin']))
  return run_dir


def test_result_has_the_origin_of_its_run(run):
  result = recorded_results.of_evaluation(str(run), _EVALUATION)
  assert result == recorded_results.Result(
      task='atari/pong', config='my own/pong.gin', config_hash=hashlib.sha256(
          (run / 'config.gin').read_bytes()).hexdigest()[:12],
      seed=7, frames=2000, updates=2, minutes=1.5, machine='first; second',
      score=19.255, standard_error=0.1, games=200, protocol='evaluation',
      commit='abc-dirty', command="impala-tf train 'my own/pong.gin'",
      curve=os.path.relpath(run))


@pytest.mark.parametrize('words, config', [
    ('catch', 'configs/catch.gin'), ('--config=catch', 'configs/catch.gin'),
    ('--config catch', 'configs/catch.gin'), ('--profile my.gin', 'my.gin'),
    ('--run_dir=x.gin configs/catch.gin', 'configs/catch.gin'),
    ('--run_dir minigrid --config=catch', 'configs/catch.gin'),
    ('--run_dir minigrid', '')])
def test_config_is_recorded_by_its_file(run, words, config):
  (run / 'history.jsonl').unlink()
  history.add(str(run), command=f'impala-tf train {words}')
  assert recorded_results.of_evaluation(str(run), _EVALUATION).config == config


def test_run_without_history_and_rows_has_gaps(run, tmp_path):
  for name in 'history.jsonl', 'metrics.jsonl':
    (run / name).unlink()
  result = recorded_results.of_evaluation(
      str(run), {**_EVALUATION, 'standard_error': None})
  assert (result.config, result.machine, result.commit) == ('', '', '')
  assert (result.minutes, result.standard_error) == (None, None)
  path = str(tmp_path / 'results.csv')
  recorded_results.add(path, result)
  assert recorded_results.read(path) == [result]


def test_second_evaluation_replaces_the_first_by_the_same_protocol(
    run, tmp_path):
  path = str(tmp_path / 'results.csv')

  def of(path=run, **changes):
    return recorded_results.of_evaluation(
        str(path), {**_EVALUATION, **changes})

  other = run.with_name('other')  # Of another config by the same command.
  shutil.copytree(run, other)
  config = other / 'config.gin'
  config.write_text(config.read_text().replace('= 7\n', '= 8\n'))
  for result in (of(), of(level='atari/breakout'), of(trained_frames=3000),
                 of(deterministic=True), of(other)):
    recorded_results.add(path, result)
  history.add(str(run), machine='third', commit='def', command='x')
  recorded_results.add(path, of(f'{run}/../run/', mean=20.))
  assert [(r.task, r.frames, r.score) for r in recorded_results.read(path)] == [
      ('atari/breakout', 2000, 19.255), ('atari/pong', 3000, 19.255),
      ('atari/pong', 2000, 19.255), ('atari/pong', 2000, 19.255),
      ('atari/pong', 2000, 20.)]


def test_no_result_is_lost_if_processes_add_at_once(run, tmp_path):
  path = str(tmp_path / 'results.csv')
  result = recorded_results.of_evaluation(str(run), _EVALUATION)
  results = [result._replace(frames=frames) for frames in range(200)]
  with futures.ProcessPoolExecutor(4) as pool:
    list(pool.map(recorded_results.add, [path] * 200, results))
  assert sorted(recorded_results.read(path)) == results


@pytest.mark.parametrize('text', [
    'a,b\n1,2\n', ','.join(recorded_results.Result._fields) + '\n1,2\n',
    '\xff'])
def test_file_of_something_else_is_refused_and_left(run, tmp_path, text):
  path = tmp_path / 'results.csv'
  path.write_bytes(text.encode('latin-1'))
  with pytest.raises(config_lib.UserError, match=f'{path} holds no results'):
    recorded_results.add(
        str(path), recorded_results.of_evaluation(str(run), _EVALUATION))
  assert path.read_bytes() == text.encode('latin-1')
