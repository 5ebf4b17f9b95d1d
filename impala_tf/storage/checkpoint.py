"""Checkpoints in a run's directory: written whole, restored from the newest."""

import contextlib
import errno
import os
import re
from typing import Collection, List, Mapping, Optional

from absl import logging
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.storage import files

DIRECTORY = 'checkpoints'  # In the run's.
_PREFIX = 'ckpt'
_PART = re.compile(rf'({_PREFIX}-\d+)\.(index|data-\d+-of-\d+)')
# Errors that TensorFlow raises for files that are missing, cut or altered.
_DAMAGE = (tf.errors.OpError, ValueError, AssertionError, IndexError)
# And for files behind a URL that cannot be had just now.
_NO_ANSWER = (tf.errors.UnavailableError, tf.errors.DeadlineExceededError,
              tf.errors.AbortedError, tf.errors.FailedPreconditionError,
              tf.errors.PermissionDeniedError, tf.errors.UnauthenticatedError)


class CheckpointError(config_lib.UserError):
  """No checkpoint could be read; the message says what to do."""


def replay_directory(run_dir: str) -> str:
  """Returns the directory of the replay, beside the checkpoints."""
  return os.path.join(run_dir, DIRECTORY, 'replay')


def newest_first(run_dir: str) -> List[str]:
  """Lists checkpoint prefixes by number, the newest first.

  It does not trust TensorFlow's state file.
  """
  directory = os.path.join(run_dir, DIRECTORY)
  numbers = []
  for name in files.names(directory):
    match = re.fullmatch(rf'{_PREFIX}-(\d+)\.index', name)
    if match:
      numbers.append(int(match.group(1)))
  return [os.path.join(directory, f'{_PREFIX}-{n}')
          for n in sorted(numbers)[::-1]]


def restore_newest(parts: Mapping[str, tf.Module], run_dir: str, whole: bool,
                   optional: Collection[str] = ()) -> Optional[str]:
  """Reads the newest checkpoint that is whole.

  Args:
    parts: what to restore, by the names under which it was saved.
    run_dir: directory of the run.
    whole: whether everything in the file must be wanted.
    optional: parts that keep their values where the file has nothing of them,
      as a file of an older version may.

  Returns:
    Its path; None where there is none at all.

  Raises:
    CheckpointError: where there are some and all are damaged.
    OSError: where the run directory is a URL, and nobody answers there.
  """
  paths = newest_first(run_dir)
  for path in paths:
    try:
      # `list_variables` would take the path for a directory in some stores.
      reader = tf.compat.v1.train.NewCheckpointReader(path)
      saved = {key.partition('/')[0]
               for key in reader.get_variable_to_shape_map()}
      wanted = {name: module for name, module in parts.items()
                if name in saved or name not in optional}
      # `restore`, since `read` would not ask for TensorFlow's own counter, and
      # the file would hold one thing more than is wanted.
      status = tf.train.Checkpoint(**wanted).restore(path)
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
      logging.error('Checkpoint %s is damaged, trying the one before: %s',
                    path, files.one_line(error, 200))
  if paths:
    where = os.path.join(run_dir, DIRECTORY)
    which = f'the only checkpoint in {where} is'
    if len(paths) > 1:
      which = f'all {len(paths)} checkpoints in {where} are'
    raise CheckpointError(f'{which} damaged; put back a good copy, or choose '
                          'another run directory')
  return None


class Checkpointer:
  """Checkpoints of a training run in `RUN_DIR/checkpoints`."""

  def __init__(self, run_dir: str, keep: int,
               optional: Collection[str] = (), **parts: tf.Module):
    """Writes nothing yet.

    Args:
      run_dir: directory of the run.
      keep: how many of the newest checkpoints stay.
      optional: see `restore_newest`.
      **parts: what is saved; the agent goes by the name `agent`.
    """
    self._run_dir = run_dir
    self._keep = keep
    self._optional = optional
    self._parts = parts
    self._manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(**parts), os.path.join(run_dir, DIRECTORY),
        max_to_keep=keep, checkpoint_name=_PREFIX)

  def restore(self, tidy: bool = True) -> Optional[str]:
    """Restores the newest whole checkpoint; see `restore_newest`.

    Args:
      tidy: remove what a process that was killed while it wrote has left.
    """
    path = restore_newest(
        self._parts, self._run_dir, whole=True, optional=self._optional)
    if tidy:
      self._remove_remains(path)
    return path

  def save(self, number: int) -> str:
    """Writes a checkpoint whole or not at all; returns its path.

    Args:
      number: orders checkpoints, e.g. learner updates.

    Raises:
      OSError: where it cannot be written; those that there are stay usable.
    """
    try:
      return self._manager.save(checkpoint_number=number)
    except tf.errors.OpError as error:
      self._remove_remains(None)  # They fill a disk that is full.
      raise OSError(f'checkpoint {number} could not be written to '
                    f'{self._manager.directory}: {error.message}') from error

  def _remove_remains(self, restored: Optional[str]) -> None:
    """Removes files of checkpoints that are not whole or not wanted any more.

    Args:
      restored: a path that is wanted.
    """
    wanted = {restored, *self._manager.checkpoints,
              *newest_first(self._run_dir)[:self._keep]}
    directory = self._manager.directory
    for name in files.names(directory):
      if not name.startswith((f'{_PREFIX}-', 'checkpoint.tmp')):
        continue
      match = _PART.fullmatch(name)
      if match and os.path.join(directory, match.group(1)) in wanted:
        continue
      with contextlib.suppress(OSError):  # It does no harm but take room.
        files.remove(os.path.join(directory, name))
