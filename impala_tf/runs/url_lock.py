"""Ownership of a directory behind a URL, where there are no locks.

A file names the process that owns the directory, and when it last said so. The
file is believed while that is recent, except on the owner's own machine, where
it can be seen at once whether the process lives.
"""

import contextlib
import json
import os
import pathlib
import secrets
import signal
import socket
import threading
import time
from typing import Any, Dict, Iterator, Optional

from absl import logging

from impala_tf.storage import files

_BEAT_SECS = 10.
# An owner on another machine counts as dead after such a silence. The clocks of
# machines must differ by less.
_SILENCE_SECS = 60.
# Looking and then writing must take less: of two processes that come at once,
# both have written when the first looks again.
_SETTLE_SECS = 2.


class OwnedError(Exception):
  """Another process owns the directory; the message says which, if known."""


def _machine() -> str:
  """Returns a name for where process ids are valid; empty where unknown."""
  try:
    boot = pathlib.Path('/proc/sys/kernel/random/boot_id').read_text().strip()
    return f'{boot} {os.readlink("/proc/self/ns/pid")}'
  except OSError:
    return ''


def _start_ticks(pid: int) -> Optional[int]:
  """Returns when a process began; None where it does not run.

  Tells it from a later process with the same id.
  """
  try:
    stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
  except OSError:
    return None
  state, *fields = stat.rpartition(')')[2].split()
  return None if state == 'Z' else int(fields[18])


def _this_process() -> Dict[str, Any]:
  return {'host': socket.gethostname(), 'machine': _machine(),
          'pid': os.getpid(), 'start_ticks': _start_ticks(os.getpid()),
          'token': secrets.token_hex(8)}


def _is_alive(owner: Dict[str, Any]) -> bool:
  if owner['machine'] and owner['machine'] == _machine():
    return _start_ticks(owner['pid']) == owner['start_ticks']
  return time.time() - owner['secs'] < _SILENCE_SECS


def _read(path: str) -> Optional[Dict[str, Any]]:
  """Returns the owner that the file names; None where it names none."""
  try:
    owner = json.loads(files.read(path))
    owner['secs'], owner['pid'] = float(owner['secs']), int(owner['pid'])
    return owner if owner.keys() == {*_this_process(), 'secs'} else None
  except (FileNotFoundError, ValueError, TypeError, KeyError):
    return None


def _is_of(owner: Optional[Dict[str, Any]], process: Dict[str, Any]) -> bool:
  return owner is not None and {**owner, **process} == owner


def _refuse_if_owned(path: str, process: Dict[str, Any]) -> None:
  """Raises OwnedError where a process other than `process` owns it."""
  owner = _read(path)
  if owner is None or _is_of(owner, process) or not _is_alive(owner):
    return
  whose = f'process {owner["pid"]} on {owner["host"]}'
  if owner['machine'] != _machine():
    age = max(0., time.time() - owner['secs'])
    whose += (f', which said so {age:.0f} s ago; of one that was killed it is '
              f'believed for {_SILENCE_SECS:.0f} s')
  raise OwnedError(whose)


def _write(path: str, process: Dict[str, Any]) -> None:
  files.write(path, json.dumps({**process, 'secs': time.time()}).encode(),
              process['token'])


@contextlib.contextmanager
def owning(path: str) -> Iterator[None]:
  """Makes this process the owner as long as the context lasts.

  Where another process has become the owner meanwhile, as after this machine
  was suspended, this process gets SIGTERM.

  Args:
    path: URL of the file that names the owner.

  Raises:
    OwnedError: where another process is the owner.
    OSError: where the file cannot be written.
  """
  process = _this_process()
  _refuse_if_owned(path, process)
  _write(path, process)
  time.sleep(_SETTLE_SECS)
  _refuse_if_owned(path, process)
  is_over = threading.Event()
  beating = threading.Thread(
      target=_beat, args=(path, process, is_over), daemon=True)
  beating.start()
  try:
    yield
  finally:
    is_over.set()
    beating.join(_BEAT_SECS)
    with contextlib.suppress(OSError):
      if _is_of(_read(path), process):
        files.remove(path)


def _beat(path: str, process: Dict[str, Any], is_over: threading.Event):
  while not is_over.wait(_BEAT_SECS):
    try:
      owner = _read(path)
      if owner is not None and not _is_of(owner, process):
        logging.error('Process %s on %s has taken over %s; this one ends',
                      owner['pid'], owner['host'], os.path.dirname(path))
        os.kill(os.getpid(), signal.SIGTERM)
        return
      _write(path, process)
    except OSError as error:
      logging.warning('%s is not kept up to date: %s', path, error)
