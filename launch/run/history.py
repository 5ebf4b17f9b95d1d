"""The history of a run: what happened to it beside training.

`history.jsonl` in the run's directory has a line for each time its config was
changed, and for the agent that it began from:

    {"time": "2026-11-22T10:00:00+00:00", "checkpoint": "ckpt-1200",
     "changed": ["OptimizerConfig.learning_rate (0.0006, now 0.0003)"]}
    {"time": "2026-11-22T10:00:00+00:00", "began_from": "runs/a:best",
     "parameters": ["parameters of best-900 in runs/a (144,000 frames)"]}
"""

import datetime
import json
import os
from typing import Any, List, Mapping

from impala_tf.storage import files


def path(run_dir: str) -> str:
  """Returns the path of a run's history."""
  return os.path.join(run_dir, 'history.jsonl')


def read(run_dir: str) -> List[Mapping[str, Any]]:
  """Reads all entries, the oldest first; none where nothing has happened."""
  try:
    text = files.read(path(run_dir)).decode()
  except FileNotFoundError:
    return []
  return [json.loads(line) for line in text.splitlines()]


def add(run_dir: str, **entry: Any) -> None:
  """Adds an entry with the present time, whole or not at all."""
  now = datetime.datetime.now(datetime.timezone.utc)
  _write(run_dir, [*read(run_dir),
                   {'time': now.isoformat(timespec='seconds'), **entry}])


def remove_last(run_dir: str) -> None:
  """Removes the newest entry, of what was refused after all."""
  entries = read(run_dir)[:-1]
  if entries:
    _write(run_dir, entries)
  else:  # Some stores have no empty files.
    files.remove(path(run_dir))


def _write(run_dir: str, entries: List[Mapping[str, Any]]) -> None:
  text = ''.join(json.dumps(entry) + '\n' for entry in entries)
  files.write(path(run_dir), text.encode())
