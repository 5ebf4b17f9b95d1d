"""The progress line has the numbers of a row."""

import builtins
import json
import logging
import sys
import types

from absl import logging as absl_logging
import pytest

from impala_tf import config as config_lib
from impala_tf.runs import progress

_ROW = {'frames': 1_250_000, 'secs': 500., 'frames_per_sec': 2_500.4,
        'policy_lag': 3.26}


def _line(secs=5., *clock):
  return progress.ProgressLine(config_lib.Config(
      experiment=config_lib.ExperimentConfig(
          total_frames=10_000_000, log_interval_secs=secs)), *clock)


def test_line_by_hand():
  row = {**_ROW, 'episode_return': -3.456, 'episodes': 250,
         'episode/won[:a:]': 0.256, 'episode/lost': None}
  # 8.75 million frames at 2,500.4 a second.
  assert progress.format_row(row, 10_000_000) == (
      'return -3.46 (last 100) · 1,250,000 frames (12.5%) · won[:a:] 0.26 · '
      '2,500 frames/s · ETA 0:58:19 · lag 3.3')


@pytest.mark.parametrize('values, start', [
    ({'episode_return': None, 'episodes': 0}, ''),
    ({'episode_return': 1., 'episodes': 12}, 'return 1.00 (last 12) · '),
    ({'capped_mean_human_normalised_score': 0.1234},
     'human-normalised 12.3% · '),
    ({'evaluated_return': 1., 'evaluated_cut': 3},
     'evaluated 1.00 (3 games cut off) · ')])
def test_scores_are_shown_once_there_are_any(values, start):
  line = progress.format_row({**_ROW, **values}, 10_000_000)
  assert line.startswith(f'{start}1,250,000 frames')


@pytest.mark.parametrize('frames, eta', [
    (0, '1 day, 3:46:40'), (99_940, '0:01:00'), (100_320, '0:00:00')])
def test_time_left(frames, eta):
  row = dict(_ROW, frames=frames, frames_per_sec=1.)
  assert f'ETA {eta} ' in progress.format_row(row, 100_000)
  assert 'ETA 115740740 days' in progress.format_row(row, 2**63 - 1)


def test_silence_and_remarks_of_this_start_are_shown_once(tmp_path, capsys):
  logs = [tmp_path / 'logs' / f'{name}.log' for name in ('actor_0', 'learner')]
  logs[0].parent.mkdir()
  logs[0].write_text('note: of an earlier start\n')
  with _line(5., iter([0., 9.9, 10., 99., 99., 99.]).__next__) as line:
    newest = progress.NewestRow(str(tmp_path))
    for is_told in False, True, False:
      newest.show(line)
      assert (f'{tmp_path}/logs)\n' in capsys.readouterr().out) == is_told
    for text in 'W00 noise\nnote: it drifts\n', 'note: other\n' * 2:
      for log in logs:
        with log.open('a') as file:
          file.write(text)
      newest.show(line)
  assert capsys.readouterr().err.splitlines() == [
      'note: it drifts', 'note: other']


def test_rows_of_earlier_starts_are_not_shown(tmp_path, capsys):
  path = tmp_path / 'metrics.jsonl'
  rows = [json.dumps({**_ROW, 'secs': secs}) + '\n' for secs in (1., 2., 3.)]
  path.write_text(''.join(rows[:2]))
  newest, line = progress.NewestRow(str(tmp_path)), _line()
  (tmp_path / 'evaluation').mkdir()
  (tmp_path / 'evaluation' / 'metrics.jsonl').write_text(
      '{"episode_return": 7}\n')
  # The second row's learning is lost, and the file is written anew; so is the
  # third's.
  for text, is_shown in ((rows[0], False), (rows[0] + rows[2], True),
                         (rows[2], False)):
    (tmp_path / 'new').write_text(text)
    (tmp_path / 'new').replace(path)
    newest.show(line)
    shown = capsys.readouterr().out
    assert ('frames' in shown) == ('evaluated 7.00' in shown) == is_shown


def test_full_disk_is_reported_once(tmp_path, monkeypatch, caplog):
  (tmp_path / 'logs').mkdir()
  newest, line = progress.NewestRow(str(tmp_path)), _line()
  for free in 2e6, 1e5, 1e5:
    monkeypatch.setattr(
        progress.shutil, 'disk_usage',
        lambda path, free=free: types.SimpleNamespace(free=free))
    newest.show(line)
  assert caplog.text.count('is full: rows, logs') == 1


def test_rows_that_cannot_be_read_now_are_read_later(tmp_path, capsys):
  path = tmp_path / 'metrics.jsonl'
  newest, line = progress.NewestRow(str(tmp_path)), _line()
  path.mkdir()
  newest.show(line)
  path.rmdir()
  path.write_text(json.dumps({**_ROW, 'secs': 1.}) + '\n')
  newest.show(line)
  assert 'frames' in capsys.readouterr().out


@pytest.mark.parametrize('in_process, has_callbacks, term, is_terminal', [
    (False, False, 'xterm', True), (True, False, 'xterm', True),
    (False, True, 'xterm', True), (False, False, 'dumb', True),
    (False, False, 'xterm', False)])
def test_terminal_has_a_live_line_unless_it_may_have_a_prompt(
    in_process, has_callbacks, term, is_terminal, monkeypatch, capsys):
  monkeypatch.setenv('FORCE_COLOR', '1')  # Also for files, as in CI.
  monkeypatch.setenv('TERM', term)
  monkeypatch.setattr(sys.stdout, 'isatty', lambda: is_terminal)
  with progress.ProgressLine(config_lib.Config(
      experiment=config_lib.ExperimentConfig(in_process=in_process)),
                             has_callbacks=has_callbacks):
    pass
  assert ('starting …' in capsys.readouterr().out) != (
      in_process or has_callbacks or term == 'dumb' or not is_terminal)


def test_line_is_printed_anew_every_two_seconds(capsys):
  with _line(2.) as line:
    for n in range(1, 38):  # Eight updates a second.
      line.show(dict(_ROW, frames=125 * n, secs=n / 8, frames_per_sec=7.))
  lines = capsys.readouterr().out.splitlines()
  assert [text.partition(' frames')[0] for text in lines] == [
      '125', '2,125', '4,125', '4,625']
  assert [text.split(' · ')[1] for text in lines] == [
      'lag 3.3', *3 * ['1,000 frames/s']]  # A start has no speed yet.


def test_line_goes_on_with_a_learner_that_lost_a_part_of_its_time(capsys):
  with _line() as line:
    for secs, frames in ((500., 9_000), (90., 4_000), (91., 4_100),
                         (99., 3_000)):
      line.show(dict(_ROW, secs=secs, frames=frames, value_size=1e9))
    shown, errors = capsys.readouterr()
  assert '9,000 frames' in shown and '4,000 frames' in shown
  assert '4,100 frames' not in shown and ' frames/s' not in shown
  assert errors.count('warning: values diverge') == 1


def test_other_libraries_only_warn_above_the_line(capsys, tmp_path):
  absl_logging.set_verbosity(absl_logging.INFO)  # Saving a model lowers it.
  root = logging.getLogger()
  own = logging.FileHandler(tmp_path / 'my.log')
  root.addHandler(own)
  before = root.handlers[:], root.level
  with _line():
    logging.getLogger('portpicker').info('a port')
    logging.getLogger('portpicker').warning('no port')
    absl_logging.info('ours')
  assert capsys.readouterr().err.splitlines() == ['no port', 'ours']
  assert (root.handlers[:], root.level) == before
  root.removeHandler(own)
  assert (tmp_path / 'my.log').read_text() == 'a port\nno port\nours\n'


def test_notebook_shows_one_line_that_is_rewritten(capsys, monkeypatch):
  shell = type('ZMQInteractiveShell', (), {})  # By which rich knows one.
  monkeypatch.setattr(builtins, 'get_ipython', shell, raising=False)
  with _line() as line:
    line.show(dict(_ROW, episode_return=1., episodes=12, secs=495.,
                   frames=1_250_000 - 12_502))
    line.show(_ROW)
  _, first, second = capsys.readouterr().out.split('\r')
  assert first.startswith('return 1.00') and '\n' not in first
  assert second.strip() == progress.format_row(_ROW, 10_000_000)
  assert len(second) > len(first.strip())  # It covers all of it.
