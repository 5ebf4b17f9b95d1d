"""The history of a run: starts, config changes, and the agent it began from.

Each is a line of `history.jsonl` in the run's directory:

    {"time": "2026-11-22T10:00:00+00:00", "command": "impala-tf train catch",
     "commit": "3a1ed9e2", "machine": "2 cores of AMD EPYC 7B13"}
    {"time": "2026-11-22T10:00:00+00:00", "checkpoint": "ckpt-1200",
     "changed": ["OptimizerConfig.learning_rate (0.0006, now 0.0003)"]}
    {"time": "2026-11-22T10:00:00+00:00", "began_from": "runs/a:best",
     "parameters": ["parameters of best-900 in runs/a (144,000 frames)"]}
"""

import datetime
import json
import os
import shlex
import subprocess
import sys
from typing import Any, Mapping

import impala_tf
from impala_tf.runtime import cores
from impala_tf.storage import files
from impala_tf.storage import line_log
from impala_tf.storage import shipped


def path(run_dir: str) -> str:
  """Returns the path of a run's history."""
  return os.path.join(run_dir, 'history.jsonl')


def read(run_dir: str) -> list[Mapping[str, Any]]:
  """Reads all entries, oldest first; raises UserError for a damaged line."""
  if not files.exists(path(run_dir)):
    return []
  return line_log.parsed(path(run_dir), files.read(path(run_dir)).splitlines())


def add(run_dir: str, **entry: Any) -> None:
  """Adds an entry with the present time, whole or not at all."""
  now = datetime.datetime.now(datetime.timezone.utc)
  _write(run_dir, [*read(run_dir),
                   {'time': now.isoformat(timespec='seconds'), **entry}])


def add_start(run_dir: str) -> None:
  """Adds a start to the history: command line, commit and machine."""
  program = sys.argv[0]  # It may be 'impala-tf train', or quoted already.
  command = ' '.join([
      shlex.quote(program) if os.path.exists(program) else program,
      *map(shlex.quote, sys.argv[1:])])
  add(run_dir, command=command, commit=_commit(), machine=cores.machine())


def _commit() -> str:
  """Returns the Git commit, with "-dirty" if changed, or else the version."""
  if (shipped.ROOT / '.git').exists():
    try:
      return subprocess.run(
          ['git', '-C', shipped.ROOT, 'describe', '--always', '--dirty',
           '--exclude=*'], capture_output=True, text=True, check=True,
          timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
      pass  # No git here, or another user's clone.
  return impala_tf.__version__


def remove_last(run_dir: str) -> None:
  """Removes the newest entry, after what it notes was refused."""
  entries = read(run_dir)[:-1]
  if entries:
    _write(run_dir, entries)
  else:  # Some stores have no empty files.
    files.remove(path(run_dir))


def _write(run_dir: str, entries: list[Mapping[str, Any]]) -> None:
  text = ''.join(json.dumps(entry) + '\n' for entry in entries)
  files.write(path(run_dir), text.encode())
