"""Points, figures and files that pictures of runs consist of."""

import pytest

from impala_tf import config as config_lib
from launch.report import curves


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


def test_picture_has_its_panels_and_is_written_or_refused(tmp_path):
  figure, axes = curves.grid(2, 3, width=1, height=1)
  assert axes.shape == (2, 3)
  assert figure.get_size_inches().tolist() == [3, 2]
  curves.save(figure, str(tmp_path / 'x.png'))
  assert (tmp_path / 'x.png').read_bytes()[1:4] == b'PNG'
  with pytest.raises(config_lib.UserError, match='choose another --output'):
    curves.save(figure, str(tmp_path / 'no' / 'x.png'))
