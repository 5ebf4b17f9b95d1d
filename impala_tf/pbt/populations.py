"""Files of a population's member, in the directory `population` of its run.

    events.jsonl            its decisions, a line each; see `Event`
    published.json          what others may copy; see `Published`
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
import functools
import json
import os
import re
import shutil
from typing import Collection, Mapping, NamedTuple, TypeVar

from absl import logging

from impala_tf.storage import files
from impala_tf.storage import line_log

_EVENTS = 'events.jsonl'
_PUBLISHED = 'published.json'
_PART = re.compile(r'((?:published|copied)-\d+)\..*')


class Event(NamedTuple):
  """A decision of a member."""
  evolution: int  # Number of the member's decision, from 1 on.
  frames: int  # Environment frames of the member when it decided.
  updates: int  # Learner updates likewise.
  score: float  # Fitness of the member before.
  # Name of the member compared with; '' if all others have failed.
  partner: str
  # Fitness of the partner; None if it had published nothing.
  partner_score: float | None
  # Number of the partner's last decision before its publication; None likewise.
  partner_evolution: int | None
  partner_frames: int | None  # Frames of the partner then; None likewise.
  # Prefix of the member's own copy of the partner's parameters, in its
  # population directory; None if nothing was copied.
  checkpoint: str | None
  before: Mapping[str, float]  # Hyper-parameters before.
  # Hyper-parameters after: the partner's, if copied, and then mutated.
  after: Mapping[str, float]

  @property
  def is_copy(self) -> bool:
    return self.checkpoint is not None

  @property
  def fitness(self) -> float:
    """Fitness of the member after the decision."""
    if not self.is_copy:
      return self.score
    assert self.partner_score is not None  # Only better members are copied.
    return self.partner_score


class Published(NamedTuple):
  """A member's published state, which other members may copy."""
  evolution: int  # Number of the member's last decision.
  frames: int  # Environment frames of the member then.
  # Its fitness, from its own episodes or those of the member it copied.
  score: float
  checkpoint: str  # Prefix of its parameters in its population directory.
  hyperparameters: Mapping[str, float]


def sibling(run_dir: str, member: str) -> str:
  """Returns the run directory of another member of the same population."""
  return os.path.join(os.path.dirname(os.path.abspath(run_dir)), member)


def name_of(run_dir: str) -> str:
  """Returns the name of the member that trains in a directory."""
  return os.path.basename(os.path.abspath(run_dir))


def path(run_dir: str, name: str = '') -> str:
  """Returns the path of a member's file, or the prefix of a checkpoint."""
  return os.path.join(run_dir, 'population', os.path.basename(name))


def read_events(run_dir: str) -> list[Event]:
  """Reads a member's decisions, oldest first; raises UserError if damaged.

  An incomplete last line, of a process that was killed, is left out.
  """
  log = path(run_dir, _EVENTS)
  return line_log.parsed(log, line_log.open_for_reading(log).new_lines(),
                         functools.partial(loads, Event))


def append_event(run_dir: str, event: Event) -> None:
  """Appends a decision to the log so that it survives a machine's crash.

  If it raises OSError, the decision was not made.
  """
  line_log.append_durably(path(run_dir, _EVENTS), dumps(event).encode() + b'\n')


def read_published(run_dir: str) -> Published | None:
  """Reads a member's publication; None if it is missing or damaged."""
  try:
    return loads(Published, files.read(path(run_dir, _PUBLISHED)).decode())
  except FileNotFoundError:
    return None
  except ValueError as error:  # The machine crashed before it was on the disk.
    logging.warning('%s is damaged: %s', path(run_dir, _PUBLISHED), error)
    return None


def publish(run_dir: str, published: Published) -> None:
  """Announces a complete checkpoint; raises OSError if writing fails."""
  files.write(path(run_dir, _PUBLISHED), dumps(published).encode())


def copy_parameters(source: str, target: str) -> None:
  """Copies a published checkpoint so that it survives a crash of the machine.

  Raises FileNotFoundError if the other member has published another meanwhile
  and removed this one, OSError if there is no room.
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
  for name in files.names(path(run_dir)):
    match = _PART.fullmatch(name)
    if match and match[1] not in wanted:
      with contextlib.suppress(OSError):  # It does no harm but take room.
        files.remove(path(run_dir, name))


def set_failed(run_dir: str, is_failed: bool) -> None:
  """Records that a member has failed permanently, or is retried."""
  if is_failed:
    files.make_directory(os.path.dirname(_failed_path(run_dir)))
    files.write(_failed_path(run_dir), b'It is not copied any more.\n')
  else:
    with contextlib.suppress(FileNotFoundError):
      files.remove(_failed_path(run_dir))


def has_failed(run_dir: str) -> bool:
  """Returns whether a member is recorded as failed permanently."""
  return files.exists(_failed_path(run_dir))


def _failed_path(run_dir: str) -> str:
  return f'{os.path.abspath(run_dir)}.failed'


_Record = TypeVar('_Record', Event, Published)


def dumps(record: _Record) -> str:
  """Converts a record to one line of JSON."""
  return json.dumps(record._asdict(), allow_nan=False)


def loads(kind: type[_Record], text: str) -> _Record:
  """Reads a record of `dumps`; raises ValueError for any other text."""
  values = json.loads(text)
  if not isinstance(values, dict) or values.keys() != set(kind._fields):
    raise ValueError(f'no {kind.__name__}: {text[:80]!r}')
  return kind(**values)
