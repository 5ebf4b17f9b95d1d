"""Checkpoints in a run's directory: written whole, restored from the newest.

    ckpt-N.*   index and data of the newest few; N counts updates.
    best-N.*   A copy of the best so far, which `best.json` names.
    best.json  {"number": N, "score": its score}.
    spare-N.*  While ckpt-N is written once more.

The best is a separate copy, which no rotation can remove. `best.json` is
written after the copy, and only then the previous best is removed: a kill at
any time leaves a whole one. The spare protects a checkpoint that is
overwritten, since index and data are replaced one after the other.
"""

import contextlib
import errno
import json
import math
import os
import re
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from absl import logging
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.storage import files

DIRECTORY = 'checkpoints'  # In the run's.
NEWEST, BEST = 'newest', 'best'
Which = str | int  # `NEWEST`, `BEST` or the number of a checkpoint.
_PREFIX, _SPARE = 'ckpt', 'spare'
_BEST_FILE = 'best.json'
_PART = re.compile(
    rf'((?:{_PREFIX}|{_SPARE}|{BEST})-\d+)\.(index|data-\d+-of-\d+)')
# Errors that TensorFlow raises for files that are missing, cut or altered.
_DAMAGE = (tf.errors.OpError, ValueError, AssertionError, IndexError)
# And for files behind a URL that cannot be had just now.
_NO_ANSWER = (tf.errors.UnavailableError, tf.errors.DeadlineExceededError,
              tf.errors.AbortedError, tf.errors.FailedPreconditionError,
              tf.errors.PermissionDeniedError, tf.errors.UnauthenticatedError)
_UNWRITTEN = (tf.errors.OpError, OSError)


def replay_directory(run_dir: str) -> str:
  """Returns the directory of the replay, beside the checkpoints."""
  return os.path.join(run_dir, DIRECTORY, 'replay')


def newest_first(run_dir: str) -> list[str]:
  """Lists prefixes of `ckpt-N` files, newest first, by their names alone."""
  directory = os.path.join(run_dir, DIRECTORY)
  numbers = [int(match[1]) for name in files.names(directory) if (
      match := re.fullmatch(rf'{_PREFIX}-(\d+)\.index', name))]
  return [os.path.join(directory, f'{_PREFIX}-{n}')
          for n in sorted(numbers)[::-1]]


class Best(NamedTuple):
  """The best checkpoint of a run."""
  path: str  # Its prefix.
  number: int  # Updates behind it.
  score: float  # Mean return of the last 100 full episodes before it.


def find_best(run_dir: str) -> Best | None:
  """Finds the best checkpoint or None; raises OSError if a URL fails."""
  directory = os.path.join(run_dir, DIRECTORY)
  try:
    best = json.loads(files.read(os.path.join(directory, _BEST_FILE)))
    number, score = int(best['number']), float(best['score'])
  except files.RemoteError:
    raise
  except (OSError, ValueError, KeyError, TypeError):
    return None  # There is none, or it is damaged; the next will be the best.
  if not math.isfinite(score):  # No other could be better.
    return None
  return Best(os.path.join(directory, f'{BEST}-{number}'), number, score)


def find(run_dir: str, which: Which = NEWEST) -> list[str]:
  """Finds prefixes of candidate checkpoints, in the order of preference.

  They are the newest ones, possibly none; the best; or those of a number of
  updates. Raises UserError if there is no such checkpoint, or `which` is
  another text.
  """
  if isinstance(which, str) and which not in (NEWEST, BEST):
    raise config_lib.UserError(
        f'a checkpoint is {NEWEST!r}, {BEST!r} or a number (int), but not the '
        f'text {which!r}')
  newest = newest_first(run_dir)
  if which == NEWEST:
    return newest
  best = find_best(run_dir)
  if which == BEST:
    if best is None:
      raise config_lib.UserError(
          f'{run_dir} holds no best checkpoint; one is kept some time after '
          '100 full episodes have ended in training. Take the newest instead')
    return [best.path]
  there = [path.rpartition('-')[2] for path in newest]
  found = [path for path, n in zip(newest, there) if n == str(which)]
  if best and best.number == which:
    found.insert(0, best.path)  # A copy: either may be damaged.
  if not found:
    if best:
      there.append(f'{BEST} ({best.number})')
    raise config_lib.UserError(
        f'{run_dir} holds no checkpoint {which}; there are '
        f'{", ".join(there) or "none"} (updates, as their files are named)')
  return found


@contextlib.contextmanager
def _literal(path: str) -> Iterator[str]:
  """Yields a checkpoint's prefix without characters of glob patterns."""
  directory, name = os.path.split(path)
  with files.literal(directory) as literal:
    yield os.path.join(literal, name)


@contextlib.contextmanager
def _reader(path: str) -> Iterator[Any]:
  """Yields TensorFlow's reader of a checkpoint; raises `_DAMAGE` if damaged."""
  with _literal(path) as prefix:
    # `list_variables` would take the path for a directory in some stores.
    yield tf.compat.v1.train.NewCheckpointReader(prefix)


def restore(parts: Mapping[str, tf.Module], paths: Sequence[str], whole: bool,
            optional: Sequence[str] = ()) -> str | None:
  """Restores parts from the first undamaged checkpoint; returns its path.

  Without `paths` it returns None. `whole` demands that `parts` cover everything
  in the file. `optional` parts keep their values if the file has none. Raises
  UserError if all are damaged, OSError if a URL does not answer.
  """
  only_to_play = []
  for path in paths:
    try:
      with _reader(path) as reader:
        saved = {key.partition('/')[0]
                 for key in reader.get_variable_to_shape_map()}
      wanted = {name: module for name, module in parts.items()
                if name in saved or name not in optional}
      missing = sorted(wanted.keys() - saved)
      if whole and missing:
        only_to_play.append(path)
        raise ValueError(f'it holds no {", ".join(missing)}')
      # Not `read`, which would ignore TensorFlow's counter in the file.
      with _literal(path) as prefix:
        status = tf.train.Checkpoint(**wanted).restore(prefix)
      status.assert_existing_objects_matched()
      if whole:
        status.assert_consumed()
      else:
        status.expect_partial()  # Else TensorFlow warns of each value left.
      return path
    except _DAMAGE as error:
      if files.is_url(path) and isinstance(error, _NO_ANSWER):
        raise files.RemoteError(
            errno.EIO, f'{path}: {files.one_line(error)}') from error
      logging.error('Checkpoint %s cannot be restored: %s',
                    path, files.one_line(error, 200))
  if not paths:
    return None
  where = os.path.dirname(paths[0])
  if only_to_play == list(paths):
    raise config_lib.UserError(
        f'{where} holds an exported agent, without the optimiser; begin a new '
        'run with --init_from')
  raise config_lib.UserError(
      f'{where} holds only damaged checkpoints ({len(paths)}); put back a good '
      'copy, or choose another run directory')


def write_parts(parts: Mapping[str, tf.Module], path: str) -> None:
  """Writes a checkpoint of prefix `path`; raises OSError if it cannot."""
  try:
    with _literal(path) as prefix:
      tf.train.Checkpoint(**parts).write(prefix)
  except _UNWRITTEN as error:
    raise OSError(f'{path} could not be written: {_cause(error)}') from error


def is_whole(path: str) -> bool:
  """Returns whether all values of a checkpoint can be read."""
  try:
    with _reader(path) as reader:
      for name in reader.get_variable_to_shape_map():
        reader.get_tensor(name)
  except _DAMAGE as error:
    logging.error('Checkpoint %s is damaged: %s', path, files.one_line(error))
    return False
  return True


def read_parts(parts: Mapping[str, tf.Module], path: str) -> None:
  """Restores parts of `write_parts`; raises UserError if damaged."""
  try:
    with _literal(path) as prefix:
      status = tf.train.Checkpoint(**parts).read(prefix)
    status.assert_existing_objects_matched().assert_consumed()
  except _DAMAGE as error:
    raise config_lib.UserError(
        f'{path} is damaged ({files.one_line(error)}); put back a good copy'
    ) from error


class Checkpointer:
  """A writer and reader of a run's checkpoints in `RUN_DIR/checkpoints`."""

  def __init__(self, run_dir: str, keep: int,
               optional: Sequence[str] = (), **parts: tf.Module):
    """Finds the best checkpoint so far, and writes nothing.

    The newest `keep` stay. `parts` are saved; for `optional` see `restore`.
    """
    self._run_dir = run_dir
    self._keep = keep
    self._optional = optional
    self._parts = parts
    self._directory = os.path.join(run_dir, DIRECTORY)
    self._best = find_best(run_dir)
    self._checkpoint = tf.train.Checkpoint(**parts)
    # Prefix of the one that was restored or saved last.
    self._last: str | None = None
    self._has_spare = False

  def restore(self, tidy: bool = True) -> str | None:
    """Restores the newest whole checkpoint, or the best if no other is there.

    `tidy` removes the remains of a process that was killed while it wrote.
    """
    there = files.names(self._directory)
    paths = []
    for path in newest_first(self._run_dir):
      paths.append(path)
      if os.path.basename(f'{_spare_of(path)}.index') in there:
        paths.append(_spare_of(path))
    if self._best and not paths:  # It is all that is left.
      paths.append(self._best.path)
    restored = restore(self._parts, paths, whole=True, optional=self._optional)
    self._last = restored
    self._has_spare = os.path.basename(restored or '').startswith(_SPARE)
    if tidy:
      self._remove_remains(restored)
    return restored

  def save(self, number: int, score: float | None = None) -> str:
    """Writes a checkpoint whole or not at all; returns its path.

    `number` orders checkpoints. The best one has the highest `score`; None or
    non-finite is unknown. A failed copy of the best is only logged. Raises
    OSError, and leaves existing ones usable, if there is no room.
    """
    new = os.path.join(self._directory, f'{_PREFIX}-{number}')
    try:
      files.make_directory(self._directory)
      if new == self._last:
        self._write(_spare_of(new))
        self._has_spare = True
      self._write(new)
    except _UNWRITTEN as error:
      # Remains fill a disk that is full.
      self._remove_remains(_spare_of(new) if self._has_spare else None)
      raise OSError(f'checkpoint {number} could not be written to '
                    f'{self._directory}: {_cause(error)}') from error
    self._last = new
    self._has_spare = False
    self._remove_remains(None)
    if score is not None and math.isfinite(score) and (
        self._best is None or (
            score > self._best.score and number != self._best.number)):
      self._save_best(number, score)
    return new

  def _write(self, path: str) -> None:
    # `restore` asks for TensorFlow's own counter, which `write` does not make.
    self._checkpoint.save_counter.assign_add(1)
    with _literal(path) as prefix:
      self._checkpoint.write(prefix)

  def _save_best(self, number: int, score: float) -> None:
    best = Best(os.path.join(self._directory, f'{BEST}-{number}'), number,
                score)
    try:
      self._write(best.path)
      files.write(os.path.join(self._directory, _BEST_FILE),
                  json.dumps({'number': number, 'score': score}).encode())
      self._best = best
    except _UNWRITTEN as error:
      logging.error(
          'The best checkpoint, %d, could not be copied in %s; the best one '
          'before stays: %s', number, self._directory, _cause(error))
    self._remove_remains(None)

  def _remove_remains(self, restored: str | None) -> None:
    """Removes incomplete and outdated checkpoints, except `restored`."""
    wanted = {restored, self._last, *newest_first(self._run_dir)[:self._keep]}
    if self._best:
      wanted.add(self._best.path)
    for name in files.names(self._directory):
      if not name.startswith((f'{_PREFIX}-', f'{_SPARE}-', f'{BEST}-',
                              # TensorFlow's own list, of earlier versions.
                              'checkpoint', files.new_path(_BEST_FILE))):
        continue
      match = _PART.fullmatch(name)
      if match and os.path.join(self._directory, match.group(1)) in wanted:
        continue
      with contextlib.suppress(OSError):  # It does no harm but take room.
        files.remove(os.path.join(self._directory, name))


def _spare_of(path: str) -> str:
  directory, name = os.path.split(path)
  return os.path.join(directory, name.replace(_PREFIX, _SPARE))


def _cause(error: Exception) -> str:
  """Returns an error's message, without the op that TensorFlow names."""
  return re.sub(r'{{.*?}} ?| \[Op:\w+\]', '',
                getattr(error, 'message', None) or str(error))
