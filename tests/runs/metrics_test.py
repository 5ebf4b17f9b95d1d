"""Rows are written whole, read back, and dropped if learning was lost."""

import math

import pytest
from tensorboard.backend.event_processing import event_accumulator

from impala_tf import config as config_lib
from impala_tf.runs import metrics
from tests.fixtures import full_disk


def _row(frames, **values):
  return {'frames': frames, 'loss': 0.5, **values}


def _write(run_dir, *rows):
  writer = metrics.MetricsWriter(str(run_dir))
  for row in rows:
    writer.write(row)
  writer.close()


@pytest.mark.parametrize('room', [0, 20])
def test_row_without_room_is_lost_whole_and_later_ones_are_not(
    tmp_path, room, caplog):
  writer = metrics.MetricsWriter(str(tmp_path))
  writer.write(_row(10))
  size = (tmp_path / metrics.FILE_NAME).stat().st_size
  with full_disk.largest_file(size + room):
    for frames in (20, 30):
      writer.write(_row(frames))
  writer.write(_row(40))
  writer.close()
  assert [row['frames'] for row in metrics.read_rows(str(tmp_path))] == [10, 40]
  assert caplog.text.count('is lost') == 2
  assert caplog.text.count('TensorBoard') == 1


def test_reader_follows_and_leaves_a_line_that_is_being_written(tmp_path):
  reader = metrics.RowReader(str(tmp_path))
  assert reader.new_rows() == []
  path = tmp_path / metrics.FILE_NAME
  path.write_text('{"frames": 1}\n{"fra')
  assert reader.new_rows() == [{'frames': 1}]
  assert reader.new_rows() == []
  path.write_text('{"frames": 1}\n{"frames": 2}\n')
  assert reader.new_rows() == [{'frames': 2}]


def test_torn_row_is_dropped_with_later_ones(tmp_path, capfd):
  (tmp_path / metrics.FILE_NAME).write_text(
      '{"frames": 10}\n{"frames": 30}\n{"frames": 4')
  copy = tmp_path / 'metrics-1.jsonl'  # As a user might make one.
  copy.write_bytes((tmp_path / metrics.FILE_NAME).read_bytes())
  metrics.drop_rows_after(str(tmp_path), 20)
  assert metrics.read_rows(str(tmp_path)) == [{'frames': 10}]
  assert copy.read_bytes().endswith(b'{"frames": 4')
  old = tmp_path / 'metrics.jsonl.old'
  assert not old.exists()  # Few rows were lost.
  for _ in range(3):
    metrics.drop_rows_after(str(tmp_path), 0)
    assert metrics.read_rows(str(tmp_path)) == []
    (tmp_path / metrics.FILE_NAME).write_text('{"frames": 20}\n')
  assert old.read_text() == '{"frames": 10}\n{"frames": 20}\n{"frames": 20}\n'
  assert capfd.readouterr().err.count('metrics.jsonl.old keeps all') == 3


@pytest.mark.parametrize('form', ['{}', 'ram:/{}'])
def test_all_is_there_but_for_lost_learning(tmp_path, form):
  run_dir = form.format(tmp_path)
  _write(run_dir, _row(10), _row(20, episode_return=-3.), _row(30, kl=math.nan))
  assert metrics.read_rows(run_dir)[-1]['kl'] is None
  metrics.drop_rows_after(run_dir, 20)
  _write(run_dir, _row(25))
  assert metrics.read_rows(run_dir) == [
      _row(10), _row(20, episode_return=-3.), _row(25)]
  events = event_accumulator.EventAccumulator(f'{run_dir}/tensorboard')
  events.Reload()
  # Names of files of one second are not in the order of their making.
  assert {(e.step, e.value) for e in events.Scalars('loss')} == {
      (10, 0.5), (20, 0.5), (30, 0.5), (25, 0.5)}
  assert [(e.step, e.value) for e in events.Scalars('episode_return')] == [
      (20, -3.)]


def test_points_are_of_rows_that_have_both_numbers():
  rows = [{'frames': 1}, {'frames': 2, 'x': None}, {'frames': 3, 'x': 0.},
          {'x': 5.}, {'frames': 4, 'x': 7., 'secs': 0.5}]
  assert metrics.points(rows, 'x') == [(3, 0.), (4, 7.)]
  assert metrics.points(rows, 'x', 'secs') == [(0.5, 7.)]


@pytest.mark.parametrize('name, run_dir', [
    ('metrics.jsonl', ''), ('pong.jsonl', 'pong.jsonl')])
def test_rows_of_a_run_or_file_are_read_or_named_as_damaged(
    tmp_path, name, run_dir):
  assert metrics.read_rows(str(tmp_path)) == []
  path = tmp_path / name
  path.write_text('{"frames": 1}\n{"frames": 2}\n')
  run_dir = str(tmp_path / run_dir)
  for form in run_dir, f'file://{run_dir}':
    assert metrics.read_rows(form) == [{'frames': 1}, {'frames': 2}]
  for line in '[1, 2]', 'nonsense':
    path.write_text(f'{{"frames": 1}}\n{line}\n{{"frames": 2}}\n')
    with pytest.raises(config_lib.UserError, match=f'{path} is damaged'):
      metrics.read_rows(run_dir)
  if path.name == metrics.FILE_NAME:
    with pytest.raises(config_lib.UserError, match=f'{path} is damaged'):
      metrics.drop_rows_after(run_dir, 1)
