"""Tests of rows and points that pictures of runs are made of."""

import pytest

from impala_tf import config as config_lib
from impala_tf.plots import curves


def test_points_are_of_rows_that_have_both_numbers():
  rows = [{'frames': 1}, {'frames': 2, 'x': None}, {'frames': 3, 'x': 0.},
          {'x': 5.}, {'frames': 4, 'x': 7., 'secs': 0.5}]
  assert curves.points(rows, 'x') == [(3, 0.), (4, 7.)]
  assert curves.points(rows, 'x', 'secs') == [(0.5, 7.)]


@pytest.mark.parametrize('name, run_dir', [
    ('metrics.jsonl', ''), ('pong.jsonl', 'pong.jsonl')])
def test_rows_of_a_run_or_file_are_read_or_named_as_damaged(
    tmp_path, name, run_dir):
  assert curves.read_rows(str(tmp_path)) == []
  path = tmp_path / name
  path.write_text('{"frames": 1}\n{"frames": 2}\n')
  run_dir = str(tmp_path / run_dir)
  assert curves.read_rows(run_dir) == [{'frames': 1}, {'frames': 2}]
  path.write_text('{"frames": 1}\nnonsense\n{"frames": 2}\n')
  with pytest.raises(config_lib.UserError, match=f'{path} is damaged'):
    curves.read_rows(run_dir)
