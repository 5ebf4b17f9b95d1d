"""Files of a population's member, in the directory `population` of its run.

    events.jsonl            its decisions, a line each; see `records.Event`
    published.json          what others may copy; see `records.Published`
    published-N.index, …    the parameters that were published after decision N
    copied-N.index, …       parameters of another member that decision N copied

Beside a run's directory, RUN_DIR.failed exists if the member has failed for
good: a run that could not begin leaves no directory.

A decision first copies what it needs from the other member, then appends its
event, then takes effect, and at last is published. The event has all that a
killed member needs to repeat the rest. Files of parameters never change: each
decision has its own.
"""

import contextlib
import os
import re
import shutil
from typing import Collection, List, Optional

from absl import logging

from impala_tf.pbt import records
from impala_tf.storage import files
from impala_tf.storage import line_log

_EVENTS = 'events.jsonl'
_PUBLISHED = 'published.json'
_PART = re.compile(r'((?:published|copied)-\d+)\..*')


def directory(run_dir: str) -> str:
  """Returns the population directory of a member's run."""
  return os.path.join(run_dir, 'population')


def sibling(run_dir: str, member: str) -> str:
  """Returns the run directory of another member of the same population."""
  return os.path.join(os.path.dirname(os.path.abspath(run_dir)), member)


def name_of(run_dir: str) -> str:
  """Returns the name of the member that trains in a directory."""
  return os.path.basename(os.path.abspath(run_dir))


def path(run_dir: str, name: str) -> str:
  """Returns the path of a member's file, or the prefix of a checkpoint."""
  return os.path.join(directory(run_dir), name)


def read_events(run_dir: str) -> List[records.Event]:
  """Reads a member's decisions, oldest first; raises ValueError if damaged.

  An incomplete last line, of a process that was killed, is left out.
  """
  lines = line_log.open_for_reading(path(run_dir, _EVENTS)).new_lines()
  return [records.loads(records.Event, line.decode()) for line in lines]


def append_event(run_dir: str, event: records.Event) -> None:
  """Appends a decision that survives a crash of the machine.

  If it raises OSError, the decision was not made.
  """
  line_log.append_durably(
      path(run_dir, _EVENTS), records.dumps(event).encode() + b'\n')


def read_published(run_dir: str) -> Optional[records.Published]:
  """Reads a member's publication; None if there is none or it is damaged."""
  try:
    text = files.read(path(run_dir, _PUBLISHED)).decode()
    return records.loads(records.Published, text)
  except FileNotFoundError:
    return None
  except ValueError as error:  # The machine crashed before it was on the disk.
    logging.warning('%s is damaged: %s', path(run_dir, _PUBLISHED), error)
    return None


def publish(run_dir: str, published: records.Published) -> None:
  """Announces a checkpoint that is already whole; raises OSError."""
  files.write(path(run_dir, _PUBLISHED), records.dumps(published).encode())


def copy_parameters(source: str, target: str) -> None:
  """Copies a published checkpoint so that it survives a crash of the machine.

  Raises:
    FileNotFoundError: if the other member has published another meanwhile and
      removed this one.
    OSError: if there is no room.
  """
  folder, prefix = os.path.split(source)
  names = [name for name in files.names(folder)
           if name.startswith(f'{prefix}.')]
  if f'{prefix}.index' not in names:
    raise FileNotFoundError(f'{source} is not there any more')
  for name in names:
    part = target + name[len(prefix):]
    shutil.copyfile(os.path.join(folder, name), part)
    line_log.sync(part)


def remove_parameters(run_dir: str, wanted: Collection[str]) -> None:
  """Removes a member's checkpoints, except those named in `wanted`."""
  for name in files.names(directory(run_dir)):
    match = _PART.fullmatch(name)
    if match and match[1] not in wanted:
      with contextlib.suppress(OSError):  # It does no harm but take room.
        files.remove(path(run_dir, name))


def set_failed(run_dir: str, is_failed: bool) -> None:
  """Records that a member has failed for good, or is retried."""
  if is_failed:
    files.make_directory(os.path.dirname(_failed_path(run_dir)))
    files.write(_failed_path(run_dir), b'It is not copied any more.\n')
  else:
    with contextlib.suppress(FileNotFoundError):
      files.remove(_failed_path(run_dir))


def has_failed(run_dir: str) -> bool:
  """Returns whether a member has failed for good."""
  return files.exists(_failed_path(run_dir))


def _failed_path(run_dir: str) -> str:
  return f'{os.path.abspath(run_dir)}.failed'
