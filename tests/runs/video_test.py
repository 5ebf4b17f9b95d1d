"""Videos: their pictures, sizes, lengths and files."""

import os
import pathlib
import tempfile

import imageio
import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.runs import video


class _Environment:
  """An environment whose picture is its step, in one colour."""
  frames_per_sec = 60.
  on_termination = staticmethod(lambda: None)

  def __init__(self, shape=(10, 5, 3), frames_per_step=4, fails_at=None):
    self.frames_per_step = frames_per_step
    self._shape = shape
    self._fails_at = fails_at
    self.num_rendered = 0

  def render(self):
    self.num_rendered += 1
    if self.num_rendered == self._fails_at:
      raise RuntimeError('no\ndisplay')
    return np.full(self._shape, 10 * self.num_rendered % 250, np.uint8)


def _film(path, environment, num_steps=8, **how):
  made = video.Video(str(path), environment, **how)
  for _ in range(num_steps):
    made.on_step(0)
  for _ in range(3):  # The end is shown, and no other episode.
    environment.on_termination()
    made.on_step(1)
  made.close()
  return imageio.v2.get_reader(path.resolve())


@pytest.mark.parametrize('shape, size', [
    ((84, 84), (420, 420)), ((400, 601), (400, 602)), ((11, 5), (396, 180))])
def test_pictures_are_enlarged_by_whole_factors_to_even_sizes(shape, size):
  picture = np.random.default_rng(0).integers(
      256, size=shape + (3,)).astype(np.uint8)
  large = video.enlarged(picture)
  assert large.shape == size + (3,)
  factor = size[0] // shape[0]
  np.testing.assert_array_equal(
      large[::factor, ::factor][:shape[0], :shape[1]], picture)
  np.testing.assert_array_equal(large[0, 0], large[factor - 1, factor - 1])


@pytest.mark.parametrize('ending', video.FORMATS)
def test_every_format_has_the_first_episode_only(
    tmp_path, ending, caplog, capfd):
  reader = _film(tmp_path / f'x{ending}', _Environment())
  pictures = [np.asarray(picture)[..., :3] for picture in reader]
  assert len(pictures) == 9 and pictures[0].shape == (400, 200, 3)
  brightness = [picture.mean() for picture in pictures]
  np.testing.assert_allclose(brightness, range(10, 100, 10), atol=3)
  assert [p.name for p in tmp_path.iterdir()] == [f'x{ending}']
  assert not caplog.records and capfd.readouterr().err == ''


def test_relative_path_with_a_colon_is_no_url(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  reader = _film(pathlib.Path('a:b [1] %d.mp4'), _Environment())
  assert len([p for p in reader]) == 9


def test_film_that_a_disk_cuts_short_is_refused(tmp_path, monkeypatch):
  get_writer = imageio.get_writer

  def cutting(path, **settings):
    made = get_writer(path, **settings)
    close = made.close
    made.close = lambda: (close(), os.truncate(path, 200))
    return made

  monkeypatch.setattr(imageio, 'get_writer', cutting)
  film = video.Video(str(tmp_path / 'x.mp4'), _Environment())
  film.on_step(0)
  with pytest.raises(OSError, match='could not be written; is its disk full'):
    film.close()
  film.discard()
  assert not list(tmp_path.iterdir())


def test_film_is_as_fast_as_the_game_and_as_long_as_asked(tmp_path):
  reader = _film(tmp_path / 'x.mp4', _Environment(), num_steps=45, max_secs=2)
  assert reader.get_meta_data()['fps'] == pytest.approx(15)
  assert len([p for p in reader]) == 30


def test_gif_has_fewer_pictures_of_a_fast_game(tmp_path):
  environment = _Environment(frames_per_step=1)  # 60 steps a second.
  reader = _film(tmp_path / 'x.gif', environment, num_steps=22)
  assert len([p for p in reader]) == environment.num_rendered == 7
  assert reader.get_meta_data()['duration'] == pytest.approx(70, abs=4)
  # It ends by itself.
  environment = _Environment(frames_per_step=60)
  _film(tmp_path / 'y.gif', environment, num_steps=30)
  assert environment.num_rendered == 20


def test_environment_that_cannot_be_drawn_leaves_nothing(tmp_path):
  made = video.Video(str(tmp_path / 'x.mp4'), _Environment(fails_at=2))
  made.on_step(0)
  with pytest.raises(config_lib.UserError, match='cannot be drawn .no display'):
    made.on_step(0)
  made.discard()
  assert not list(tmp_path.iterdir())
  made = video.Video(str(tmp_path / 'x.mp4'), _Environment(shape=()))
  with pytest.raises(config_lib.UserError, match='gives no picture'):
    made.on_step(0)


def _evaluate(videos, name, environment=None):
  with videos.filming(environment or _Environment(), name) as on_step:
    for _ in range(3):
      on_step(0)


def test_newest_videos_are_kept(tmp_path):
  directory = tmp_path / 'evaluation' / 'videos'
  now = 0.
  videos = video.NewestVideos(str(directory), 60., clock=lambda: now)
  for n in range(7):
    now = 61. * n
    _evaluate(videos, f'{n:03d}')
    _evaluate(videos, 'none')  # Not due yet.
  assert sorted(p.name for p in directory.iterdir()) == [
      f'{n:03d}.mp4' for n in range(2, 7)]
  assert len([p for p in imageio.v2.get_reader(directory / '006.mp4')]) == 3


def test_video_that_cannot_be_begun_is_left_out(tmp_path, monkeypatch, caplog):
  environment = _Environment()
  _evaluate(video.NewestVideos(str(tmp_path / 'x'), None), '0', environment)
  assert environment.num_rendered == 0  # No interval, no videos.
  environment.frames_per_step = None
  videos = video.NewestVideos(str(tmp_path / 'x'), 1e-9)
  _evaluate(videos, '0', environment)
  environment.on_termination()
  _evaluate(videos, '1')  # Given up.
  monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path / 'none'))
  _evaluate(video.NewestVideos(str(tmp_path / 'x'), 1e-9), '0')
  assert [message[:24] for message in caplog.messages] == [
      'No more videos of games:'] * 2
  assert not list(tmp_path.iterdir())


def test_level_that_cannot_be_drawn_is_evaluated_without(tmp_path, caplog):
  videos = video.NewestVideos(str(tmp_path / 'x'), 1e-9)
  environment = _Environment(fails_at=2)
  _evaluate(videos, '0', environment)
  _evaluate(videos, '1', environment)
  line, = caplog.messages
  assert 'cannot be drawn (no display)' in line and '\n' not in line
  assert environment.num_rendered == 2
  assert not list(tmp_path.iterdir())
