"""The way of an unroll, followed at run time: the files that it passes."""

import pathlib
import re
import sys
import threading

import pytest

import impala_tf
from tests.fixtures import configs
from tests.fixtures import hosts

_PACKAGE = pathlib.Path(impala_tf.__file__).parent
_DESIGN = _PACKAGE.parent / 'DESIGN.md'
MAX_FILES = 14


class _Tracer:
  """A callback that notes which files are entered between two updates."""

  def __init__(self, first):
    self.files = set()
    self._first = first
    self._is_on = False

  def after_update(self, update):
    self._is_on = update.updates == self._first
    sys.setprofile(self.note if self._is_on else None)

  def note(self, frame, event, argument):
    """Is called in each thread at each call of a function."""
    del argument
    path = pathlib.Path(frame.f_code.co_filename)
    if self._is_on and event == 'call' and path.is_relative_to(_PACKAGE):
      self.files.add(str(path.relative_to(_PACKAGE).with_suffix('')))


@pytest.mark.usefixtures('servers_stay')
def test_an_unroll_passes_the_files_of_the_map(tmp_path):
  """From the update that learns from it back to the actor's first step."""
  tracer = _Tracer(first=3)
  # Rows are not on the way: none is due.
  config = (configs.of_catch(total_frames=5 * 4 * 5 * 4,
                             log_interval_updates=1000)
            .replaced('environment', level='atari/pong')
            .replaced('atari', height=36, width=36)
            .replaced('agent', torso='shallow').replaced('actor', num_envs=4))
  process = hosts.StoppedBy(
      before_batch=lambda: None, on_wait=lambda cause: None)
  threading.setprofile(tracer.note)  # Of the reader's thread.
  try:
    hosts.run_in_process(config, tmp_path, process, callbacks=[tracer])
  finally:
    threading.setprofile(None)
  assert len(tracer.files) <= MAX_FILES
  way = _DESIGN.read_text().partition('## The path of the data')[2]
  table = set(re.findall(r'^\| `([\w/]+)` \|', way.partition('\n## ')[0], re.M))
  assert table == tracer.files
