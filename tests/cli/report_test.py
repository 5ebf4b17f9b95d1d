"""Tests of reports on small runs, from files that the real writers wrote."""

import json
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.cli import evaluate
from impala_tf.cli import report
from impala_tf.plots import figures
from impala_tf.plots import runs as runs_lib
from impala_tf.runs import metrics
from impala_tf.runs import training_log
from impala_tf.suites import dmlab30
from tests.fixtures import programs
from tests.fixtures import trained_runs

PONG, BREAKOUT = 'atari/pong', 'atari/breakout'
ROWS = 6
_TINY = dict(
    # Games are cut off before a point is lost.
    atari=config_lib.AtariConfig(max_episode_frames=40, full_action_set=True),
    agent=config_lib.AgentConfig(hidden_size=4))


def _write_rows(run_dir, levels):
  """Writes rows of a run whose returns grow by row, on level i from i."""
  writer = metrics.MetricsWriter(str(run_dir))
  num = len(levels)
  log = None
  if num > 1:
    log = training_log.LevelLog(
        levels, tf.Variable(np.zeros(num, np.int64)), frames_per_unroll=80)
  for n in range(1, ROWS + 1):
    row = {'frames': 80 * num * n, 'updates': n, 'secs': 8. * n}
    if n > 1:  # Nothing has ended yet.
      row['episode_return'] = float(n)
    if log:
      log.add(np.full([1, num], n > 1), np.arange(num)[np.newaxis] + float(n),
              np.zeros(num, np.int64), np.arange(num, dtype=np.int32), {})
      row.update(log.finish())
    writer.write(row)
  writer.close()


@pytest.fixture(name='runs', scope='module')
def _runs(tmp_path_factory):
  """Makes runs of an agent of two games and of an expert of one."""
  root = tmp_path_factory.mktemp('runs')
  for name, levels in (('many', (PONG, BREAKOUT)), ('expert', (PONG,))):
    run_dir = root / name
    run_dir.mkdir()
    trained_runs.make(run_dir, ','.join(levels), **_TINY)
    _write_rows(run_dir, levels)
    arguments = ['--episodes=2']
    if len(levels) > 1:
      arguments += ['--suite=atari57', f'--levels={",".join(levels)}']
    with pytest.MonkeyPatch.context() as patch:
      patch.setattr(sys, 'argv', ['evaluate', str(run_dir), *arguments])
      assert evaluate.main() == 0
  return root


def test_report_of_two_runs_as_a_user_calls_it(runs, tmp_path):
  output = tmp_path / 'new' / 'report'
  ran = programs.run('impala_tf', 'report', runs / 'many', runs / 'expert',
                     f'--output={output}', check=True)
  assert sorted(p.name for p in output.iterdir()) == [
      'curves.png', 'report.md', 'scores_atari57.png']
  text = (output / 'report.md').read_text()
  for line in (
      '| many | 2 levels | 960 | 6 | 0.01 | 20 | 40.7% |',
      '| expert | atari/pong | 480 | 6 | 0.01 | 10 | – |',
      '| many | atari/pong | 480 | 4.00 | 70.0% |',
      '| many | atari/breakout | 4,321 | 2 | 0.00 | 0.00 | -5.9% |',
      '| pong | 0.00 | 0.00 | 14.60 | -20.70 | 20.90 | 20.70 | 8.58 | 20.40 '
      '| 20.98 | 58.6% | 58.6% |',
      '| IMPALA, deep, multi-task | 59.7% | 176.9% | – |',
      '| **many** on 2 levels | – | – | 0.0 |',
      '| IMPALA (dyn. batch), 48 actors | 48 | 1 | 21, 24 |'):
    assert line in text.splitlines()
    assert line in ran.stdout.splitlines()
  for name in 'curves.png', 'scores_atari57.png':
    assert f']({name})' in text
    assert (output / name).stat().st_size > 20_000
  assert f'to {output}' in ran.stdout


def _loaded(*run_dirs):
  return runs_lib.load([str(run_dir) for run_dir in run_dirs])


def _lines(axes):
  """Returns the points of each run's line by its label."""
  return {line.get_label(): list(zip(*map(list, line.get_data())))
          for line in axes.lines if line.get_color() != 'grey'}


def _scores_of_others(axes):
  """Returns the heights of grey lines by their labels."""
  return {line.get_label(): line.get_ydata()[0]
          for line in axes.lines if line.get_color() == 'grey'}


def test_curves_are_of_each_level_beside_scores_of_others(runs):
  figure = figures.learning_curves(_loaded(runs / 'many', runs / 'expert'))
  panels = {axes.get_title().splitlines()[0]: axes
            for axes in figure.axes if axes.get_title()}
  assert list(panels) == ['capped mean, human-normalised', PONG, BREAKOUT]
  # From the second row on; all returns so far are within 20 episodes.
  frames = [80 * n for n in range(2, ROWS + 1)]
  means = [np.mean(range(2, n + 1)) for n in range(2, ROWS + 1)]
  assert _lines(panels[PONG]) == {
      'many': list(zip(frames, means)),
      'expert': list(zip(frames, range(2, ROWS + 1)))}
  assert _lines(panels[BREAKOUT]) == {
      'many': list(zip(frames, [mean + 1 for mean in means]))}
  normalised = [(80 * 2 * n, (min(1, (mean + 20.7) / 35.3) + min(
      1, (mean + 1 - 1.7) / 28.8)) / 2)
                for n, mean in zip(range(2, ROWS + 1), means)]
  headline = _lines(panels['capped mean, human-normalised'])
  assert list(headline) == ['many']
  np.testing.assert_allclose(headline['many'], normalised, rtol=1e-6)

  *_, pong, breakout = (axes for axes in figure.axes if axes.get_title())
  # The paper has an agent of many levels for the one run, and an expert with
  # the same network for the other.
  assert _scores_of_others(pong) == {
      'random': -20.7, 'human': 14.6, 'IMPALA (deep, multi-task), paper': 8.58,
      'IMPALA (shallow), paper': 20.4}
  assert pong.get_title() == PONG
  # Returns here are 3 to 5, which would look equal below 36.
  assert _scores_of_others(breakout) == {'random': 1.7}
  assert breakout.get_title() == (
      f'{BREAKOUT}\nabove: human 30.5\n'
      'above: IMPALA (deep,\nmulti-task), paper 35.7')


def test_runs_of_dmlab_are_compared_with_the_papers_experts_or_its_one_agent():
  both = 'dmlab30/rooms_watermaze', 'dmlab30/lasertag_one_opponent_large'
  # Experts there are deep, whatever the run is (table B.1).
  for levels, agents in ((both[:1], ['IMPALA-Experts']), (both, ['IMPALA'])):
    run = runs_lib.Run('run', levels, torso='shallow', rows=[], results={})
    assert run.paper_agents(dmlab30.SUITE) == agents


def test_of_several_evaluations_that_after_most_training_counts(runs, tmp_path):
  run_dir = tmp_path / 'run'
  shutil.copytree(runs / 'expert', run_dir)
  other = json.loads((run_dir / 'evaluation.json').read_text())
  # After the same training, that of more episodes, but not by another config,
  # and one by the protocol first.
  for changes, mean in (
      ({'trained_frames': 4000, 'episodes': 99, 'mean': 7.}, 0),
      ({'trained_frames': 4321}, 7), ({'gin_binding': ['A.b = 1']}, 0),
      ({'gin_binding': [], 'deterministic': True}, 0),
      ({'deterministic': False, 'interrupted': True}, 0)):
    other.update(changes)
    (run_dir / 'evaluation_other.json').write_text(json.dumps(other))
    run, = _loaded(run_dir)
    assert run.results[PONG]['mean'] == mean


def test_run_without_an_evaluation_or_a_curve_shows_the_rest(
    runs, tmp_path, call, capsys):
  evaluated = tmp_path / 'a'
  shutil.copytree(runs / 'expert', evaluated)
  trained = tmp_path / 'b'
  shutil.copytree(evaluated, trained)
  (evaluated / 'metrics.jsonl').unlink()
  (trained / 'evaluation.json').unlink()
  assert call(report.main, evaluated, f'--output={tmp_path / "x"}') == 0
  assert sorted(p.name for p in (tmp_path / 'x').iterdir()) == [
      'report.md', 'scores_atari57.png']
  assert call(report.main, trained, f'--output={tmp_path / "y"}') == 0
  assert sorted(p.name for p in (tmp_path / 'y').iterdir()) == [
      'curves.png', 'report.md']
  assert 'Evaluation' not in (tmp_path / 'y' / 'report.md').read_text()
  # Paths distinguish runs of one name.
  other = tmp_path / 'others' / 'b'
  shutil.copytree(trained, other)
  capsys.readouterr()
  assert call(report.main, trained, other, f'--output={tmp_path / "z"}') == 0
  output = capsys.readouterr().out
  assert '| b |' in output and '| others/b |' in output


@pytest.mark.parametrize('spoil, words', [
    (lambda run: (run / 'config.gin').unlink(),
     'holds no config.gin; is it the directory of a run?'),
    (lambda run: [p.unlink() for p in run.glob('*.json*')],
     'has neither rows in its metrics.jsonl nor an evaluation yet'),
    (lambda run: (run / 'metrics.jsonl').write_text('?\n'),
     'metrics.jsonl is damaged'),
    (lambda run: (run / 'evaluation.json').write_text('{"level": "catch"}'),
     'evaluation.json holds no evaluation'),
    (lambda run: (run / 'evaluation_x.json').write_text(
        '{"suite": "atari57", "trained_frames": 1, "episodes": 1, "seed": 0}'),
     'evaluation_x.json holds no results of Atari-57')])
def test_bad_run_is_refused_in_one_line(runs, tmp_path, refused, spoil, words):
  run_dir = tmp_path / 'run'
  shutil.copytree(runs / 'expert', run_dir)
  spoil(run_dir)
  output = tmp_path / 'report'
  assert words in refused(report.main, run_dir, f'--output={output}')
  assert not output.exists()


@pytest.mark.parametrize('arguments, words', [
    (['{runs}/expert', '--output={runs}/expert/config.gin'],
     'is no directory, or not writable); choose another --output'),
    (['{runs}/expert', '--output=report.pdf'],
     '--output is a directory, which gets report.md and pictures'),
    (['{runs}/none'], 'there is no run')])
def test_bad_flag_is_refused_in_one_line(
    runs, monkeypatch, tmp_path, refused, arguments, words):
  monkeypatch.chdir(tmp_path)
  arguments = [a.format(runs=runs) for a in arguments]
  assert words in refused(report.main, *arguments)
  assert not list(tmp_path.iterdir())


def test_scores_alone_are_written_in_the_form_of_a_package(
    runs, tmp_path, call):
  output = tmp_path / 'scores'
  assert call(report.main, runs / 'expert', '--format=rliable',
              f'--output={output}') == 0
  assert [path.name for path in output.iterdir()] == ['scores.json']
  (matrix,) = json.loads((output / 'scores.json').read_text()).values()
  assert np.shape(matrix) == (1, 1)
