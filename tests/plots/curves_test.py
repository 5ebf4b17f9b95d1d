"""Tests of rows and points that pictures of runs are made of."""

import pytest

from impala_tf import config as config_lib
from impala_tf.plots import curves


def test_points_are_of_rows_that_have_both_numbers():
  rows = [{'frames': 1}, {'frames': 2, 'x': None}, {'frames': 3, 'x': 0.},
          {'x': 5.}, {'frames': 4, 'x': 7., 'secs': 0.5}]
  assert curves.points(rows, 'x') == [(3, 0.), (4, 7.)]
  assert curves.points(rows, 'x', 'secs') == [(0.5, 7.)]


def test_run_without_rows_has_none(tmp_path):
  assert curves.read_rows(str(tmp_path)) == []


def test_damaged_rows_are_refused_by_the_name_of_their_file(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  path.write_text('{"frames": 1}\nnonsense\n{"frames": 2}\n')
  with pytest.raises(config_lib.UserError, match=f'{path} is damaged'):
    curves.read_rows(str(tmp_path))


def test_file_of_rows_is_read_wherever_it_lies(tmp_path):
  path = tmp_path / 'pong.jsonl'
  path.write_text('{"frames": 1}\n{"frames": 2}\n')
  assert curves.read_rows(str(path)) == [{'frames': 1}, {'frames': 2}]
  path.write_text('?\n')
  with pytest.raises(config_lib.UserError, match=f'{path} is damaged'):
    curves.read_rows(str(path))
