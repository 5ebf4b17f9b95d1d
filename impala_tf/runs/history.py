"""The history of a run: config changes, and the agent it began from.

Each is a line of `history.jsonl` in the run's directory:

    {"time": "2026-11-22T10:00:00+00:00", "checkpoint": "ckpt-1200",
     "changed": ["OptimizerConfig.learning_rate (0.0006, now 0.0003)"]}
    {"time": "2026-11-22T10:00:00+00:00", "began_from": "runs/a:best",
     "parameters": ["parameters of best-900 in runs/a (144,000 frames)"]}
"""

import datetime
import json
import os
from typing import Any, List, Mapping

from impala_tf import config as config_lib
from impala_tf.storage import files


def path(run_dir: str) -> str:
  """Returns the path of a run's history."""
  return os.path.join(run_dir, 'history.jsonl')


def read(run_dir: str) -> List[Mapping[str, Any]]:
  """Reads all entries, oldest first; raises UserError for a damaged line."""
  if not files.exists(path(run_dir)):
    return []
  entries = []
  for line in files.read(path(run_dir)).splitlines():
    try:
      entries.append(json.loads(line))
    except ValueError as error:  # It is no JSON, or no UTF-8.
      raise config_lib.UserError(
          f'{path(run_dir)}, line {len(entries) + 1} is damaged '
          f'({files.one_line(error)}); repair the line, or remove it'
      ) from error
  return entries


def add(run_dir: str, **entry: Any) -> None:
  """Adds an entry with the present time, whole or not at all."""
  now = datetime.datetime.now(datetime.timezone.utc)
  _write(run_dir, [*read(run_dir),
                   {'time': now.isoformat(timespec='seconds'), **entry}])


def remove_last(run_dir: str) -> None:
  """Removes the newest entry, after its change was refused."""
  entries = read(run_dir)[:-1]
  if entries:
    _write(run_dir, entries)
  else:  # Some stores have no empty files.
    files.remove(path(run_dir))


def _write(run_dir: str, entries: List[Mapping[str, Any]]) -> None:
  text = ''.join(json.dumps(entry) + '\n' for entry in entries)
  files.write(path(run_dir), text.encode())
