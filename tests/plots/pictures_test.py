"""Tests of the figures that pictures of runs consist of, and of their files."""

import imageio
import pytest

from impala_tf import config as config_lib
from impala_tf.plots import pictures


def test_picture_has_its_panels_and_is_written_or_refused(tmp_path):
  figure, axes = pictures.grid(2, 3, width=1, height=1)
  assert axes.shape == (2, 3) and figure.get_size_inches().tolist() == [3, 2]
  pictures.save(figure, str(tmp_path / 'x.png'))
  assert imageio.v2.imread(tmp_path / 'x.png').shape[1] == 450
  with pytest.raises(config_lib.UserError, match='choose another --output'):
    pictures.save(figure, str(tmp_path / 'no' / 'x.png'))
  axes[0, 0].plot([[0, 0]], label=['as wide as the figure', 'no narrower one'])
  pictures.share_legend(figure)
  assert figure.legends[0]._ncols == 1
  figure, ((axis,),) = pictures.grid(1, 1, width=4, height=2)
  axis.plot([range(99)], label=[f'run {i}' for i in range(99)])
  pictures.share_legend(figure)
  figure.draw_without_rendering()
  assert axis.get_window_extent().height > figure.dpi


@pytest.mark.parametrize('ending', ['png', 'pdf', 'svg'])
def test_every_format_that_is_offered_can_be_written(tmp_path, ending):
  assert ending in pictures.formats()
  path = pictures.output_path(str(tmp_path / f'x.{ending}'))
  pictures.save(pictures.grid(1, 1, 1, 1)[0], path)
  assert [p.name for p in tmp_path.iterdir()] == [f'x.{ending}']


@pytest.mark.parametrize('last_secs, title', [
    (90, 'wall time, seconds'), (3600, 'wall time, minutes'),
    (20_000, 'wall time, hours')])
def test_wall_time_has_the_unit_that_fits(last_secs, title):
  _, ((axes,),) = pictures.grid(1, 1)
  axes.plot([0, last_secs], [0, 1])
  axes.plot([last_secs], [1])
  pictures.label_x(axes, 'secs')
  assert [line.get_marker() for line in axes.lines] == ['None', '.']
  assert axes.get_xlabel() == title
  secs = {'seconds': 1, 'minutes': 60, 'hours': 3600}[title.split()[-1]]
  for place, label in zip(axes.get_xticks(), axes.get_xticklabels()):
    assert place / secs == pytest.approx(float(label.get_text()))
