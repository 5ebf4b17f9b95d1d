"""Videos of games, at a watchable size and speed."""

import contextlib
import math
import os
import tempfile
import time
from typing import Any, Callable, Iterator, TypeVar

from absl import logging
import numpy as np

from impala_tf import config as config_lib
from impala_tf.storage import files

FORMATS = ('.gif', '.mkv', '.mov', '.mp4')
_GIF = '.gif'
# GIFs hold whole pictures, so they get fewer of them, for a short while.
_GIF_PICTURES_PER_SEC = 15
_GIF_SECS = 20.
_GIF_BITS = 6  # Of a colour.
_SIDE = 400  # Pixels of the longer side, about.
_ENDING = '.mp4'  # Of an evaluator's videos.
_TO_KEEP = 5  # Newest videos of an evaluator.

OnStep = Callable[[int], None]
_Result = TypeVar('_Result')


def check_path(path: str) -> str:
  """Returns --video's path, absolute; UserError if it cannot be written."""
  if files.is_url(path) or os.path.splitext(path)[1].lower() not in FORMATS:
    raise config_lib.UserError(
        f'--video must be a path, no URL, whose ending is one of '
        f'{", ".join(FORMATS)}, but is {path}')
  return files.check_writable(path, '--video')


def enlarged(picture: np.ndarray) -> np.ndarray:
  """Enlarges a picture, uint8 [H, W, 3], to about 400 pixels on a side.

  Each pixel becomes a square. Odd sides get one more row or column, a copy of
  the last, since codecs want even ones.
  """
  factor = max(1, round(_SIDE / max(picture.shape[:2])))
  picture = picture.repeat(factor, axis=0).repeat(factor, axis=1)
  height, width = picture.shape[:2]
  return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), 'edge')


class Video:
  """A video of the first environment's first episode, or of its beginning.

  It appears under its name once it is closed.
  """

  def __init__(self, path: str, environment: Any,
               max_secs: float | None = None):
    """Starts a video of a batch's first environment, in one of `FORMATS`.

    It ends with the episode, or after `max_secs`; a GIF after 20 by default.
    """
    self.path = path
    self._render = environment.render
    per_sec = environment.frames_per_sec / environment.frames_per_step
    root, ending = os.path.splitext(path)
    self._every = 1  # Of this many steps, the first is shown.
    # FFmpeg: pictures of any even size.
    self._format: dict[str, Any] = {'fps': per_sec, 'macro_block_size': 1}
    if ending.lower() == _GIF:
      self._every = math.ceil(per_sec / _GIF_PICTURES_PER_SEC)
      # Programs count in hundredths of a second.
      millisecs = 10 * round(100 * self._every / per_sec)
      self._format = {'duration': millisecs, 'loop': 0, 'bits': _GIF_BITS}
      max_secs = max_secs or _GIF_SECS
    self._num_left = (math.inf if max_secs is None else  # Steps.
                      math.ceil(max_secs * per_sec))
    self._num_steps = 0
    self._end: np.ndarray | None = None  # The picture that ends the episode.
    self._new_path = f'{root}.new{ending}'
    self._writer: Any = None  # Of imageio.
    self._failure: OSError | None = None  # To write.
    environment.on_termination = self._draw_end

  def on_step(self, num_ended: int) -> None:
    """Adds the current picture, or once that of the first episode's end.

    Raises UserError if it cannot be drawn.
    """
    picture = None
    if num_ended:
      picture, self._end, self._num_left = self._end, None, 0
    elif self._num_left > 0:
      self._num_left -= 1
      self._end = None  # That of an episode that was lost.
      if self._num_steps % self._every == 0:
        picture = self._draw()
      self._num_steps += 1
    if picture is not None and self._failure is None:
      if self._writer is None:
        import imageio
        self._writer = imageio.get_writer(
            os.path.abspath(self._new_path),  # FFmpeg takes a:b for a URL.
            **self._format)
      try:
        self._writer.append_data(picture)
      except OSError as error:
        self._failure = error  # The game goes on; `close` raises it.

  def _draw_end(self) -> None:
    if self._num_left > 0:
      with contextlib.suppress(config_lib.UserError):  # Not all can draw it.
        self._end = self._draw()

  def _draw(self) -> np.ndarray:
    try:
      picture = np.asarray(self._render())
      if picture.ndim != 3:
        raise ValueError('it gives no picture')
      return enlarged(picture.astype(np.uint8, copy=False))
    except Exception as error:  # Simulators raise anything.
      raise config_lib.UserError(
          f'the level cannot be drawn ({files.one_line(error)})') from error

  def close(self) -> None:
    """Completes the file; writes none if there were no pictures.

    Raises OSError if it is not whole, as on a full disk.
    """
    writer, self._writer = self._writer, None
    if writer is not None:
      import imageio
      try:
        writer.close()
        imageio.get_reader(os.path.abspath(self._new_path)).close()
        if self._failure:
          raise self._failure
      except Exception as error:  # Of any codec.
        raise OSError(
            f'{self.path} could not be written; is its disk full?') from error
      os.replace(self._new_path, self.path)

  def discard(self) -> None:
    """Removes the unfinished file; does nothing after `close`."""
    if self._writer is not None:
      self._writer.close()  # Ends the program that encodes.
      self._writer = None
    with contextlib.suppress(FileNotFoundError):
      os.remove(self._new_path)


class NewestVideos:
  """A directory with videos of the newest evaluated games.

  A video that cannot be made is left out with a warning: evaluation goes on.
  """

  def __init__(self, directory: str, interval_secs: float | None,
               clock: Callable[[], float] = time.monotonic):
    """Stores a directory (path or URL) that the first video creates.

    `interval_secs` is the least time between two starts; None: no videos.
    """
    self._directory = directory
    self._interval_secs = interval_secs
    self._clock = clock
    self._next_time = clock()

  @contextlib.contextmanager
  def filming(self, environment: Any, name: str) -> Iterator[OnStep]:
    """Films the first game of an evaluation if a video is due.

    Yields `Video.on_step`, or a function that does nothing. `name` has no
    ending, and names sort by age.
    """
    video, now = None, self._clock()
    with contextlib.ExitStack() as stack:
      if self._interval_secs is not None and now >= self._next_time:
        self._next_time = now + self._interval_secs
        video = self._try(lambda: _begin(name, environment, stack))
      if video is None:
        yield lambda num_ended: None
      else:
        yield lambda num_ended: self._try(lambda: video.on_step(num_ended))
        self._try(lambda: self._keep(video))

  def drop_from(self, name: str) -> None:
    """Removes the video `name` and later ones, whose training was lost."""
    self._try(lambda: self._remove(lambda kept: [
        video for video in kept if video >= name]))

  def _try(self, action: Callable[[], _Result]) -> _Result | None:
    if self._interval_secs is None:  # Given up.
      return None
    try:
      return action()
    except Exception as error:  # Of the simulator, the codec or the disk.
      logging.warning('No more videos of games: %s', files.one_line(error))
      self._interval_secs = None
      return None

  def _keep(self, video: Video) -> None:
    video.close()
    if os.path.exists(video.path):
      files.make_directory(self._directory)
      files.write(os.path.join(self._directory, os.path.basename(video.path)),
                  files.read(video.path))
      self._remove(lambda kept: kept[:-_TO_KEEP])

  def _remove(self, choose: Callable[[list[str]], list[str]]) -> None:
    """Removes the videos that `choose` picks from all, sorted oldest first."""
    for name in choose([name for name in files.names(self._directory)
                        if name.endswith(_ENDING)]):
      files.remove(os.path.join(self._directory, name))


def _begin(name: str, environment: Any, stack: contextlib.ExitStack) -> Video:
  directory = stack.enter_context(tempfile.TemporaryDirectory())
  video = Video(os.path.join(directory, name + _ENDING), environment)
  stack.callback(video.discard)
  return video
