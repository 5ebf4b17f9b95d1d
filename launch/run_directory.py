"""A run's directory: claimed before anything is written, or refused."""

import contextlib
import datetime
import fcntl
import os
import pathlib
import re
import shutil
from typing import Iterator

from impala_tf import config as config_lib
from impala_tf import metrics
from impala_tf.suites import levels
from launch import gin_config

_LOCK = '.lock'
_NEW_CONFIG = 'config.new'
# All that is there of a run that was killed before it had its config.
_OWN = (_LOCK, _NEW_CONFIG)


class RunDirectoryError(config_lib.UserError):
  """The directory cannot be this run's."""


def fresh_path(level: str) -> str:
  """A new directory's name under `runs/`, by level and time."""
  now = datetime.datetime.now().strftime('%Y%m%d-%H%M%S')
  name = levels.short_name(level).replace('/', '_').replace(' ', '_')
  return os.path.join('runs', f'{name}-{now}')


def check_writable(path: pathlib.Path, flag: str) -> None:
  """Raises RunDirectoryError where `path`, given by `flag`, is no directory.

  It need not exist yet.
  """
  if re.match(r'\w+:/', str(path)):  # Of two slashes pathlib makes one.
    raise RunDirectoryError(
        f'{flag} must be a path of a file system, but is a URL; mount the '
        'bucket (with gcsfuse, say), and give the path of that')
  if path.exists() and not path.is_dir():
    raise RunDirectoryError(f'{path} is not a directory; choose another {flag}')
  nearest = path
  while not nearest.exists():
    nearest = nearest.parent
  if not os.access(nearest, os.W_OK | os.X_OK) or not nearest.is_dir():
    raise RunDirectoryError(f'{path} cannot be written ({nearest} does not '
                            f'allow it); choose another {flag}')


def _check(path: pathlib.Path, config: config_lib.Config) -> None:
  """Raises RunDirectoryError where `path` is not free nor this run's."""
  check_writable(path, '--run_dir')
  config_path = pathlib.Path(gin_config.config_path(str(path)))
  if config_path.exists():
    old = gin_config.load(str(config_path))
    changed = gin_config.differences(old, config)
    if changed:
      raise RunDirectoryError(
          f'{path} holds a run with another config: {", ".join(changed)}; '
          'give the same config to resume, or another --run_dir')
  elif path.exists() and any(p.name not in _OWN for p in path.iterdir()):
    raise RunDirectoryError(f'{path} is not empty and holds no run; choose '
                            'another --run_dir')


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
  """Makes a RunDirectoryError of what the system says, as of a full disk."""
  try:
    yield
  except OSError as error:
    raise RunDirectoryError(
        f'{path} cannot be written ({error.strerror}); make room, or choose '
        'another --run_dir') from error


@contextlib.contextmanager
def claim(path: str, config: config_lib.Config) -> Iterator[bool]:
  """Makes or takes up a run directory and keeps others out of it.

  Args:
    path: of the directory.
    config: of the run; written to `config.gin` first of all.

  Yields:
    Whether a run is there to be resumed.

  Raises:
    RunDirectoryError: before anything is touched, where the directory is in
      use, foreign, unwritable or of another config.
    UserError: that came from within; unless something had been learned by
      then, nothing is left of what was written.
  """
  directory = pathlib.Path(path)
  _check(directory, config)
  was_there = directory.exists()
  with _writing(path):
    directory.mkdir(parents=True, exist_ok=True)
    lock = open(directory / _LOCK, 'wb')
  with lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise RunDirectoryError(f'another process is training in {path}; wait '
                              'for it, or choose another --run_dir') from None
    config_path = pathlib.Path(gin_config.config_path(path))
    resuming = config_path.exists()
    if not resuming:
      with _writing(path):
        new = directory / _NEW_CONFIG
        new.write_text(gin_config.dumps(config), encoding='utf-8')
        os.replace(new, config_path)
    try:
      yield resuming
    except config_lib.UserError:
      # Only its processes could see that it cannot work.
      if not resuming and not _has_learned(directory):
        _remove(directory, keep=was_there)
      raise


def _has_learned(directory: pathlib.Path) -> bool:
  return (any(directory.glob('checkpoints/*.index'))
          or bool(metrics.read_rows(str(directory))))


def _remove(directory: pathlib.Path, keep: bool) -> None:
  """Removes what is in it, and the directory itself unless it is to stay."""
  for path in directory.iterdir():
    if path.is_dir():
      shutil.rmtree(path)
    else:
      path.unlink()
  if not keep:
    directory.rmdir()
