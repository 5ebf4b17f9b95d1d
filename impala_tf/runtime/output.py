"""Standard output and error: failures ignored, libraries' lines redirected.

Lines for a person may be lost, as when a pipe's reader, a terminal or the room
on a disk has gone; the work goes on. Standard library only.
"""

import contextlib
import errno
import io
import os
import pathlib
import select
import sys
from typing import Iterator

_STDOUT, _STDERR = 1, 2

waits_for_ever = True  # For the reader of a pipe that is full.
_PATIENCE_MS = 2000  # Else, before lines are dropped until there is room.


class _Lossy(io.FileIO):
  """A file whose writes never fail: data that cannot be written is dropped."""
  _patience_ms = _PATIENCE_MS
  _has_failed = False

  def write(self, data) -> int:
    try:
      if not waits_for_ever:
        data = data[:select.PIPE_BUF]  # A larger write could block half-way.
        room = select.poll()
        room.register(self, select.POLLOUT)
        self._patience_ms = _PATIENCE_MS * bool(room.poll(self._patience_ms))
        if not self._patience_ms:
          raise OSError(errno.EAGAIN, 'its reader has stopped')
      written = super().write(data)
    except OSError as error:
      if not self._has_failed and self.fileno() == _STDOUT:
        sys.stderr.write('standard output cannot be written '
                         f'({error.strerror}); the program goes on\n')
      self._has_failed = True
      written = None
    # None, too, if a pipe is full and does not block.
    return len(data) if written is None else written


def _stream(descriptor: int, encoding: str, at_once: bool) -> io.TextIOWrapper:
  return io.TextIOWrapper(
      io.BufferedWriter(_Lossy(descriptor, 'w', closefd=False)), encoding,
      'replace', line_buffering=at_once)


@contextlib.contextmanager
def never_failing() -> Iterator[None]:
  """Replaces stdout and stderr by streams that drop lines instead of failing.

  Characters that their encoding lacks are replaced. Streams that somebody has
  put in their place, as a notebook does, stay.
  """
  # Streams that a shell closed, as by `>&-`, are opened on /dev/null. Otherwise
  # the next file would get the number, and the lines of libraries.
  while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
    os.set_inheritable(descriptor, True)
  os.close(descriptor)
  before = sys.stdout, sys.stderr
  for descriptor, name in (_STDERR, 'stderr'), (_STDOUT, 'stdout'):
    stream = getattr(sys, name)
    if stream is not getattr(sys, f'__{name}__'):
      continue
    encoding, at_once = 'utf-8', True
    if stream is not None:  # As for a file that was closed.
      stream.flush()
      encoding = stream.encoding
      at_once = stream.line_buffering or stream.write_through
    setattr(sys, name, _stream(descriptor, encoding, at_once))
  try:
    yield
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    sys.stdout, sys.stderr = before


@contextlib.contextmanager
def libraries_in(path: str) -> Iterator[None]:
  """Redirects C++ libraries' stderr, not Python's, to the end of a file."""
  pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
  before = sys.stderr
  before.flush()
  own = os.dup(_STDERR)
  with open(path, 'ab') as log:
    os.dup2(log.fileno(), _STDERR)
  sys.stderr = _stream(own, before.encoding, True)
  try:
    yield
  finally:
    sys.stderr.flush()
    sys.stderr = before
    os.dup2(own, _STDERR)
    os.close(own)
