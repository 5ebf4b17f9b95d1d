"""Tests that the progress line says what a row says."""

import builtins
import json
import logging

import pytest

from impala_tf.runs import progress

_ROW = {'frames': 1_250_000, 'frames_per_sec': 2_500.4, 'policy_lag': 3.26}


def test_line_by_hand():
  row = dict(_ROW, episode_return=-3.456, episodes=250)
  # 8.75 million frames at 2,500.4 a second.
  assert progress.format_row(row, 10_000_000) == (
      'return -3.46 (last 100) · 1,250,000 frames (12.5%) · 2,500 frames/s · '
      'ETA 0:58:19 · lag 3.3')


@pytest.mark.parametrize('values, start', [
    ({}, ''), ({'episode_return': None, 'episodes': 0}, ''),
    ({'episode_return': 1., 'episodes': 12}, 'return 1.00 (last 12) · '),
    ({'capped_mean_human_normalised_score': 0.1234},
     'human-normalised 12.3% · '),
    ({'evaluated_return': -0.126}, 'evaluated -0.13 · ')])
def test_scores_are_shown_once_there_are_any(values, start):
  line = progress.format_row({**_ROW, **values}, 10_000_000)
  assert line.startswith(f'{start}1,250,000 frames')


@pytest.mark.parametrize('frames, speed, eta', [
    (0, 1., '27:46:40'), (99_940, 1., '0:01:00'), (100_000, 1., '0:00:00'),
    (100_320, 1., '0:00:00'), (0, 0., '?')])
def test_time_left(frames, speed, eta):
  row = dict(_ROW, frames=frames, frames_per_sec=speed)
  assert f'ETA {eta} ' in progress.format_row(row, 100_000)


def test_elsewhere_than_on_a_terminal_it_prints_line_after_line(capsys):
  with progress.ProgressLine(10_000_000) as line:
    line.show(_ROW)
    line.show(dict(_ROW, frames=2_500_000))
  first, second = capsys.readouterr().out.splitlines()
  assert first == progress.format_row(_ROW, 10_000_000)
  assert second.startswith('2,500,000 frames (25.0%)')


def test_remarks_of_learners_are_shown_once_before_the_first_row(
    tmp_path, capsys):
  (tmp_path / 'logs').mkdir()
  (tmp_path / 'logs' / 'learner.log').write_text(
      'W00 noise\nnote: it drifts\n' * 2 + 'note: other\n')
  with progress.ProgressLine(10_000_000) as line:
    newest = progress.NewestRow(str(tmp_path))
    for _ in range(2):
      with (tmp_path / 'metrics.jsonl').open('a') as rows:
        rows.write(json.dumps(_ROW) + '\n')
      newest.show(line)
  assert capsys.readouterr().err.splitlines() == [
      'note: it drifts', 'note: other']


def test_notebook_shows_one_line_that_is_rewritten(capsys, monkeypatch):
  shell = type('ZMQInteractiveShell', (), {})  # By which rich knows one.
  monkeypatch.setattr(builtins, 'get_ipython', shell, raising=False)
  with progress.ProgressLine(10_000_000) as line:
    line.show(dict(_ROW, episode_return=1., episodes=12))
    line.show(_ROW)
  _, first, second = capsys.readouterr().out.split('\r')
  assert first.startswith('return 1.00') and '\n' not in first
  assert second.strip() == progress.format_row(_ROW, 10_000_000)
  assert len(second) > len(first.strip())  # It covers all of it.


def test_logging_is_as_before_afterwards():
  root = logging.getLogger()
  before = root.handlers[:], root.level
  with progress.ProgressLine(1):
    assert (root.handlers[:], root.level) != before
  assert (root.handlers[:], root.level) == before
