"""`launch.evaluate` on runs of a few parameters, as a user calls it."""

import json
import re
import sys

import imageio
import numpy as np
import pytest

from impala_tf import checkpoint
from impala_tf import config as config_lib
from impala_tf import experiment
from impala_tf import training
from launch import evaluate
from launch import gin_config
from tests import programs


def _make_run(run_dir, level, **sections):
  """What training leaves behind, without training."""
  config = config_lib.Config(
      environment=config_lib.EnvironmentConfig(level=level), **sections)
  environment = experiment.make_environment(config, 1, 0, training=True)
  learner = experiment.make_learner(
      config, environment, experiment.make_strategy())
  learner.num_frames.assign(4321)
  (run_dir / 'config.gin').write_text(gin_config.dumps(config))
  checkpoint.describe_agent(
      str(run_dir), environment.action_spec().num_values,
      environment.observation_spec(), config.agent)
  checkpoint.Checkpointer(
      str(run_dir), 2, agent=learner.agent, learner=learner,
      totals=training.Totals()).save(7)
  environment.close()
  return run_dir


@pytest.fixture(name='catch_run')
def _catch_run(tmp_path):
  return _make_run(tmp_path, 'catch', agent=config_lib.AgentConfig(
      torso='mlp', hidden_size=4))


def _evaluate(monkeypatch, *arguments):
  monkeypatch.setattr(sys, 'argv', ['evaluate', *map(str, arguments)])
  return evaluate.main()


def _pictures(video):
  # `list` would ask for their number, which is infinite before they are read.
  return [picture for picture in imageio.v2.get_reader(video)]


def test_result_is_written_and_shown_and_the_first_game_filmed(
    catch_run, tmp_path, monkeypatch, capsys):
  video = tmp_path / 'out.mp4'
  assert _evaluate(
      monkeypatch, catch_run, '--episodes=40', f'--video={video}') == 0
  report = json.loads((catch_run / 'evaluation.json').read_text())
  returns = report['returns']
  assert len(returns) == report['episodes'] == 40
  assert set(returns) == {-1., 1.}
  assert report['mean'] == pytest.approx(np.mean(returns))
  assert report['median'] == np.median(returns)
  assert report['standard_error'] == pytest.approx(
      np.std(returns, ddof=1) / np.sqrt(40))
  assert report['mean_episode_frames'] == 9
  assert report['level'] == 'catch' and report['trained_frames'] == 4321
  assert 'human_normalised_score' not in report
  output = capsys.readouterr().out
  assert re.search(rf'^mean +{report["mean"]}$', output, re.MULTILINE)
  assert f'written_to              {catch_run / "evaluation.json"}' in output

  pictures = _pictures(video)
  # The eight boards between the first action and the last.
  assert len(pictures) == 8
  brightest = [np.unravel_index(np.argmax(p[:8, :, 0]), p[:8, :, 0].shape)[0]
               for p in pictures[:6]]
  assert brightest == sorted(brightest) and len(set(brightest)) > 3  # It falls.


def test_seed_and_output_are_as_told(catch_run, tmp_path, monkeypatch):

  def returns(seed):
    path = tmp_path / 'my.json'
    assert _evaluate(monkeypatch, catch_run, '--episodes=30', f'--seed={seed}',
                     f'--output={path}') == 0
    return json.loads(path.read_text())['returns']

  first = returns(1)
  assert returns(1) == first != returns(2)
  assert not (catch_run / 'evaluation.json').exists()


def test_atari_has_a_human_normalised_score(tmp_path, monkeypatch):
  # Two points are lost within 600 frames, and it is cut off there.
  run_dir = _make_run(
      tmp_path, 'atari/pong',
      atari=config_lib.AtariConfig(max_episode_frames=600),
      agent=config_lib.AgentConfig(hidden_size=4))
  video = tmp_path / 'out.mp4'
  assert _evaluate(
      monkeypatch, run_dir, '--episodes=2', f'--video={video}') == 0
  report = json.loads((run_dir / 'evaluation.json').read_text())
  # Random -20.7 and human 14.6, table C.1's protocol.
  assert report['human_normalised_score'] == pytest.approx(
      (report['mean'] + 20.7) / (14.6 + 20.7), abs=0.01)
  assert 590 <= report['mean_episode_frames'] <= 610
  pictures = _pictures(video)
  assert 140 <= len(pictures) <= 152  # One in four.
  assert pictures[0].ndim == 3 and pictures[0].std() > 0


@pytest.mark.parametrize('arguments, words', [
    (['--episodes=0'], '--episodes must be at least 1, but is 0'),
    (['--seed=-1'], '--seed must be 0 to 1073741823, but is -1'),
    (['--seed=1073741824'], '--seed must be 0 to 1073741823'),
    (['--output={run}/no/such/x.json'], 'cannot be written; choose another'),
    (['--output={run}'], 'cannot be written; choose another'),
    (['--video={run}/config.gin/x.mp4'], 'cannot be written; choose another')])
def test_bad_flag_is_refused_in_one_line(
    tmp_path, monkeypatch, capsys, arguments, words):
  (tmp_path / 'config.gin').write_text(gin_config.dumps(config_lib.Config()))
  arguments = [a.format(run=tmp_path) for a in arguments]
  assert _evaluate(monkeypatch, tmp_path, *arguments) == 2
  line, = capsys.readouterr().err.splitlines()
  assert line.startswith('error: ') and words in line
  assert [p.name for p in tmp_path.iterdir()] == ['config.gin']


def test_run_without_a_whole_checkpoint_is_refused_in_one_line(
    catch_run, monkeypatch, capsys):
  for path in (catch_run / 'checkpoints').glob('*.index'):
    path.write_bytes(b'cut')
  assert _evaluate(monkeypatch, catch_run) == 2
  error = [line for line in capsys.readouterr().err.splitlines()
           if line.startswith('error: ')]
  assert len(error) == 1 and 'are damaged' in error[0]
  assert not (catch_run / 'evaluation.json').exists()


def test_directory_of_no_run_is_refused_in_one_line(tmp_path):
  line = programs.error_line(programs.run('launch.evaluate', tmp_path))
  assert 'holds no config.gin; is it the directory of a run?' in line
