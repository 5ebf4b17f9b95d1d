"""Files of a run, on a disk or behind a URL.

A run's directory may be a path, or a URL such as gs://bucket/run that
TensorFlow opens, since it writes the checkpoints. TensorFlow takes seconds to
import and is imported for URLs only. Files are read and written whole, as
object stores require: no appending (see `line_log`), and no locks.
"""

import contextlib
import errno
import functools
import importlib
import json
import os
import re
import shutil
import threading
import types
from typing import Any, Iterator

from impala_tf import config as config_lib

_URL = re.compile(r'\w[\w+.-]*://')
_PATTERN = re.compile(r'[*?[\\]')  # What makes a path one, for TensorFlow.
_REMEDY = 'check its name, the network, and what this machine may do there'
_OF_THIS_MACHINE = ('file', 'ram')
# Schemes of URLs that were opened. Some of TensorFlow's libraries for them, and
# threads that wait for an answer, abort a process that ends in order.
opened: set[str] = set()
# Some of TensorFlow's file functions, for paths and without TensorFlow.
_DISK = types.SimpleNamespace(
    GFile=open, exists=os.path.exists, listdir=os.listdir,
    isdir=lambda path: os.path.isdir(path) and not os.path.islink(path),
    makedirs=functools.partial(os.makedirs, exist_ok=True),
    remove=os.remove, rmtree=shutil.rmtree,
    rename=lambda old, new, overwrite: os.replace(old, new))


class RemoteError(OSError):
  """A failure to reach a file behind a URL; its message is one line."""

  def __str__(self):
    return self.strerror


def is_url(path: str) -> bool:
  """Returns whether a path is a URL, and not a path of this system."""
  return _URL.match(path) is not None


def needs_network(path: str) -> bool:
  """Returns whether a path is a URL that leads to another machine."""
  return is_url(path) and _scheme(path) not in _OF_THIS_MACHINE


def absolute(path: str) -> str:
  """Returns a path that holds in any working directory; a URL as it is."""
  return path if is_url(path) else os.path.abspath(path)


@contextlib.contextmanager
def directory_restored() -> Iterator[None]:
  """Restores at the end the working directory, which simulators may leave."""
  directory = os.open('.', os.O_RDONLY)  # It may be renamed or removed.
  try:
    yield
  finally:
    os.fchdir(directory)
    os.close(directory)


def is_pattern(path: str) -> bool:
  """Returns whether TensorFlow and Reverb would read a path as a pattern."""
  return _PATTERN.search(path) is not None


@contextlib.contextmanager
def literal(directory: str) -> Iterator[str]:
  """Yields a path without glob characters that leads to `directory`.

  TensorFlow and Reverb take names for patterns, without escapes: they would
  read or remove files of try1 for try[1].
  """
  if not is_pattern(directory):
    yield directory
    return
  descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
  try:
    yield f'/proc/self/fd/{descriptor}'
  finally:
    os.close(descriptor)


def _scheme(url: str) -> str:
  return url.partition('://')[0]


def _check_scheme(url: str) -> None:
  """Raises RemoteError unless TensorFlow can open URLs of this scheme."""
  import tensorflow as tf
  gfile = tf.io.gfile
  if _scheme(url) not in gfile.get_registered_schemes():
    # Otherwise tensorflow-io 0.36.0 reads checkpoints from S3 in part only:
    # 'truncated block read', see github.com/tensorflow/tensorflow/issues/61449.
    os.environ.setdefault('S3_DISABLE_MULTI_PART_DOWNLOAD', '1')
    with contextlib.suppress(ImportError):
      importlib.import_module('tensorflow_io')  # Registers more schemes.
    if _scheme(url) not in gfile.get_registered_schemes():
      known = ', '.join(
          f'{s}://' for s in sorted(gfile.get_registered_schemes()) if s)
      raise RemoteError(
          errno.EPROTONOSUPPORT,
          f'TensorFlow here opens {known} and paths, but not {_scheme(url)}://;'
          ' install tensorflow-io (docs/cluster.md), or mount the store and '
          'give its path')
  opened.add(_scheme(url))


@contextlib.contextmanager
def _gfile(path: str) -> Iterator[Any]:
  """Yields file functions for a path or URL, which raise OSErrors only."""
  if not is_url(path):
    yield _DISK
    return
  _check_scheme(path)
  import tensorflow as tf
  try:
    yield tf.io.gfile
  except tf.errors.NotFoundError as error:
    raise FileNotFoundError(
        errno.ENOENT, one_line(error) or f'there is no {path}') from error
  except tf.errors.OpError as error:
    raise RemoteError(errno.EIO, one_line(error)) from error


def one_line(error: BaseException, max_characters: int | None = 300) -> str:
  """Returns an error's message on one line, cut to `max_characters`, if any."""
  return ' '.join(str(error).split())[:max_characters]


def reach(url: str, secs: float) -> None:
  """Waits until the store behind a directory's URL answers.

  Raises RemoteError if it does not within `secs`, or answers with an error.
  """
  if re.match(r'file://[^/]', url):
    # TensorFlow would take 'a' of file://a/b for the name of a machine.
    raise RemoteError(
        errno.EINVAL, 'file:// is followed by a path from / on: file:///a/b')
  # Imports TensorFlow, which may take longer than the answer.
  _check_scheme(url)
  errors: list[Exception] = []

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
  """Returns whether a path or URL exists; raises OSError if a URL fails."""
  with _gfile(path) as gfile:
    return gfile.exists(path)


def names(directory: str) -> list[str]:
  """Lists the names in a directory, sorted; empty if it does not exist."""
  if not exists(directory):
    return []
  with _gfile(directory) as gfile:
    # Names of directories may end in a slash.
    return sorted(name.rstrip('/') for name in gfile.listdir(directory))


def read(path: str) -> bytes:
  """Reads a whole file; raises OSError, or FileNotFoundError if missing."""
  with _gfile(path) as gfile, gfile.GFile(path, 'rb') as file:
    return file.read()


def new_path(path: str) -> str:
  """Returns the temporary path of `write`, which a kill may leave behind."""
  return f'{path}.new'


def write(path: str, content: bytes) -> None:
  """Writes a file whole or not at all; raises OSError.

  Behind a URL, `content` must not be empty: some stores cannot rename that.
  """
  new = new_path(path)
  with _gfile(path) as gfile:
    try:
      with gfile.GFile(new, 'wb') as file:
        file.write(content)
      gfile.rename(new, path, overwrite=True)
    except BaseException:
      if not is_url(path):  # A store that is away would hold it up once more.
        with contextlib.suppress(OSError):
          os.remove(new)
      raise


def write_json(path: str, contents: Any) -> None:
  """Writes indented JSON, whole or not at all; raises OSError."""
  write(path, (json.dumps(contents, indent=2) + '\n').encode())


def check_writable(path: str, flag: str) -> str:
  """Returns a file's path, absolute; UserError if it cannot be written.

  `path` is the value of `flag`, which the error names.
  Call it before hours of work. It makes the file's directory if that is
  missing, writes another file there, and removes it.
  """
  trial = f'{path}.{os.getpid()}'  # Another process may be writing `new_path`.
  try:
    if os.path.exists(path) and not os.path.isfile(path):
      raise OSError(errno.EINVAL, 'not a regular file')
    if not exists(directory := os.path.dirname(path) or '.'):
      make_directory(directory)
    write(trial, b'to be removed')
    remove(trial)
  except OSError as error:
    raise config_lib.UserError(
        f'{path} cannot be written ({error.strerror}); choose another {flag}'
    ) from error
  return absolute(path)


def make_directory(path: str) -> None:
  """Makes a directory and its missing parents; raises OSError."""
  with _gfile(path) as gfile:
    gfile.makedirs(path)


def remove(path: str) -> None:
  """Removes a file, or a directory with its contents; raises OSError."""
  with _gfile(path) as gfile:
    if gfile.isdir(path):
      gfile.rmtree(path)
    else:
      gfile.remove(path)
