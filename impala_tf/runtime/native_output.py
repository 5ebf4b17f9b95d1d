"""What libraries in C++ print, kept out of the terminal.

They write to the file descriptor of standard error, which Python's own stream
then leaves. Standard library only.
"""

import contextlib
import os
import pathlib
import sys
from typing import Iterator

_STDERR = 2


@contextlib.contextmanager
def redirected(path: str) -> Iterator[None]:
  """Appends it to a file as long as the context lasts.

  `sys.stderr` stays where it was. What crashes the process is in the file, too.
  """
  pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
  before = sys.stderr
  before.flush()
  with open(path, 'ab') as log, open(
      os.dup(_STDERR), 'w', buffering=1, encoding=before.encoding,
      errors=before.errors) as stream:
    os.dup2(log.fileno(), _STDERR)
    sys.stderr = stream
    try:
      yield
    finally:
      sys.stderr = before
      os.dup2(stream.fileno(), _STDERR)
