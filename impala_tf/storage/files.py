"""Files of a run, on a disk or behind a URL.

A run's directory may be a path, or a URL such as gs://bucket/run that
TensorFlow opens: it writes the checkpoints, so no other library would do for
the rest. TensorFlow takes seconds to import, and is imported for URLs only.

What there is for URLs is what object stores have: files are read and written
whole. There is no appending (see `line_log`), and there are no locks.
"""

import contextlib
import errno
import importlib
import os
import re
import shutil
import threading
from typing import Any, Iterator, List, Optional, Set

_NEW = '.new'
_URL = re.compile(r'(\w[\w+.-]*)://')
_REMEDY = 'check its name, the network, and what this machine may do there'
_OF_THIS_MACHINE = ('file', 'ram')
_opened: Set[str] = set()  # Schemes.


class RemoteError(OSError):
  """What is behind a URL cannot be had; one line says why."""

  def __str__(self):
    return self.strerror


def is_url(path: str) -> bool:
  """Whether it is a URL; else it is a path of the system's."""
  return _URL.match(path) is not None


def needs_network(path: str) -> bool:
  """Whether other machines are asked for what is there."""
  return is_url(path) and _scheme(path) not in _OF_THIS_MACHINE


def _scheme(url: str) -> str:
  return _URL.match(url).group(1)


def _gfile(url: str) -> Any:
  """TensorFlow's functions for files, once they know what the URL is of."""
  import tensorflow as tf
  gfile = tf.io.gfile
  if _scheme(url) not in gfile.get_registered_schemes():
    # Else tensorflow-io 0.36.0 cuts short what it reads from S3, and no
    # checkpoint can be written or read: 'truncated block read', as others find
    # in https://github.com/tensorflow/tensorflow/issues/61449.
    os.environ.setdefault('S3_DISABLE_MULTI_PART_DOWNLOAD', '1')
    with contextlib.suppress(ImportError):
      importlib.import_module('tensorflow_io')  # Makes more of them known.
    if _scheme(url) not in gfile.get_registered_schemes():
      known = ', '.join(
          f'{s}://' for s in sorted(gfile.get_registered_schemes()) if s)
      raise RemoteError(
          errno.EPROTONOSUPPORT,
          f'TensorFlow here opens {known} and paths, but not {_scheme(url)}://;'
          ' install tensorflow-io (docs/cluster.md), or mount it and give the '
          'path of that')
  _opened.add(_scheme(url))
  return gfile


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
  """Makes OSErrors, of one line, of TensorFlow's."""
  import tensorflow as tf
  try:
    yield
  except tf.errors.NotFoundError as error:
    raise FileNotFoundError(
        errno.ENOENT, one_line(error) or f'there is no {path}') from error
  except tf.errors.OpError as error:
    raise RemoteError(errno.EIO, one_line(error)) from error


def one_line(error: Exception, max_characters: Optional[int] = 300) -> str:
  """Returns an error's message on one line, cut where it is too long to read.

  Args:
    error: any error, such as one that quotes a script or a stack of calls.
    max_characters: number of characters that are kept; None for all.
  """
  return ' '.join(str(error).split())[:max_characters]


def were_urls_opened() -> bool:
  """Whether the process should end at once, and not in order.

  Some of what TensorFlow opens URLs with aborts the process then, and so does
  a thread that still waits for an answer.
  """
  return bool(_opened)


def reach(url: str, secs: float) -> None:
  """Returns once there was an answer.

  Args:
    url: of a directory, which need not exist.
    secs: to wait for it at most. TensorFlow itself would try for minutes.

  Raises:
    RemoteError: where there is none, or only an error.
  """
  if re.match(r'file://[^/]', url):
    # TensorFlow would take what follows for the name of a machine.
    raise RemoteError(
        errno.EINVAL, 'file:// is followed by a path from / on: file:///a/b')
  _gfile(url)  # Imports TensorFlow, which may take longer than the answer.
  errors: List[Exception] = []

  def ask():
    try:
      exists(url)
    except OSError as error:
      errors.append(error)

  asking = threading.Thread(target=ask, daemon=True)
  asking.start()
  asking.join(secs)
  if asking.is_alive():
    raise RemoteError(
        errno.ETIMEDOUT, f'no answer within {secs:.0f} s; {_REMEDY}')
  if errors:
    raise RemoteError(errno.EIO, f'{errors[0]}; {_REMEDY}') from errors[0]


def exists(path: str) -> bool:
  """Whether there is a file or directory; raises OSError where nobody says."""
  if not is_url(path):
    return os.path.exists(path)
  gfile = _gfile(path)
  with _explained(path):
    return gfile.exists(path)


def names(directory: str) -> List[str]:
  """Of what is in a directory, sorted; empty where there is none."""
  if not exists(directory):
    return []
  if not is_url(directory):
    return sorted(os.listdir(directory))
  gfile = _gfile(directory)
  with _explained(directory):
    # Those of directories may end in a slash.
    return sorted(name.rstrip('/') for name in gfile.listdir(directory))


def read(path: str) -> bytes:
  """A whole file; raises OSError, FileNotFoundError where there is none."""
  if not is_url(path):
    with open(path, 'rb') as file:
      return file.read()
  gfile = _gfile(path)
  with _explained(path), gfile.GFile(path, 'rb') as file:
    return file.read()


def new_path(path: str, writer: str = '') -> str:
  """What `write` may leave behind where it is killed."""
  return path + writer + _NEW


def write(path: str, content: bytes, writer: str = '') -> None:
  """Puts a whole file in place, or nothing; raises OSError.

  Args:
    path: of the file.
    content: not empty where it is a URL: not every store renames such a file.
    writer: differs between those who may write it at the same time.
  """
  new = new_path(path, writer)
  if not is_url(path):
    with open(new, 'wb') as file:
      file.write(content)
    os.replace(new, path)
    return
  gfile = _gfile(path)
  with _explained(path):
    with gfile.GFile(new, 'wb') as file:
      file.write(content)
    gfile.rename(new, path, overwrite=True)


def make_directory(path: str) -> None:
  """Makes it, and those above it, unless they are there; raises OSError."""
  if not is_url(path):
    os.makedirs(path, exist_ok=True)
    return
  gfile = _gfile(path)
  with _explained(path):
    gfile.makedirs(path)


def remove(path: str) -> None:
  """Removes a file, or a directory with all in it; raises OSError."""
  if not is_url(path):
    if os.path.isdir(path) and not os.path.islink(path):
      shutil.rmtree(path)
    else:
      os.remove(path)
    return
  gfile = _gfile(path)
  with _explained(path):
    if gfile.isdir(path):
      gfile.rmtree(path)
    else:
      gfile.remove(path)
