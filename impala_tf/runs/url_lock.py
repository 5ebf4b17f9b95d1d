"""Ownership of a directory behind a URL, which has no locks.

A file names the owning process and the time of its last sign of life, which
holds for a minute. Two processes that start within the same second may both be
let in: users must start one run at a time for each URL.
"""

import contextlib
import json
import os
import socket
import threading
import time
from typing import Iterator

from absl import logging

from impala_tf.storage import files

_BEAT_SECS = 10.
# The clocks of machines must differ by less.
_SILENCE_SECS = 60.


class OwnedError(Exception):
  """Another process owns the directory; the message says which, if known."""


def _refuse_if_owned(path: str) -> None:
  try:
    owner = json.loads(files.read(path))
    age = max(0., time.time() - float(owner['secs']))
    whose = f'process {owner["pid"]} on {owner["host"]}'
  except (FileNotFoundError, ValueError, TypeError, KeyError):
    return  # It names nobody.
  if age < _SILENCE_SECS:
    raise OwnedError(
        f'{whose}, which said so {age:.0f} s ago; of one that was killed it is '
        f'believed for {_SILENCE_SECS:.0f} s')


def _write(path: str) -> None:
  files.write(path, json.dumps({
      'host': socket.gethostname(), 'pid': os.getpid(),
      'secs': time.time()}).encode())


@contextlib.contextmanager
def owning(path: str, beat_secs: float = _BEAT_SECS) -> Iterator[None]:
  """Makes this process the owner within the context.

  Raises OwnedError if another is, OSError if the file cannot be written.
  """
  _refuse_if_owned(path)
  _write(path)
  is_over = threading.Event()

  def beat():
    while not is_over.wait(beat_secs):
      try:
        _write(path)
      except OSError as error:
        logging.warning('%s is not kept up to date: %s', path, error)

  beating = threading.Thread(target=beat, daemon=True)
  beating.start()
  try:
    yield
  finally:
    is_over.set()
    beating.join(beat_secs)
    with contextlib.suppress(OSError):
      files.remove(path)
