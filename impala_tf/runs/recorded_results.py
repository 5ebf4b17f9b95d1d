"""A CSV file of evaluation results: a row for each, with its origin."""

import contextlib
import csv
import fcntl
import hashlib
import io
import os
import shlex
from typing import Any, Mapping, NamedTuple

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runs import history
from impala_tf.runs import metrics
from impala_tf.storage import files
from impala_tf.storage import shipped
from impala_tf.sweeps import results as results_lib

DEFAULT_PATH = 'results/results.csv'
# Values of `Result.protocol`.
SAMPLED = 'evaluation'  # Full games; no-ops begin them as in section 5.3.2.
DETERMINISTIC = 'evaluation, most probable actions'


class Result(NamedTuple):
  """A score and its origin; unknown text is empty, an unknown number None."""
  task: str  # Level that was played.
  config: str  # The .gin file that the run was started with.
  config_hash: str  # First 12 digits of the SHA-256 of the run's config.gin.
  seed: int  # Of the run.
  frames: int  # Environment frames that it had learned from.
  updates: int | None
  minutes: float | None  # Wall time of training until then.
  machine: str  # All on which it was started, in order.
  score: float  # Mean return, raw.
  standard_error: float | None  # Of the mean over games.
  games: int | None
  protocol: str
  commit: str  # Of the code of each start, likewise.
  command: str  # With which it was started first.
  curve: str  # Directory with its metrics.jsonl.


_TYPES = {'seed': int, 'frames': int, 'updates': int, 'games': int,
          'minutes': float, 'score': float, 'standard_error': float}


def of_evaluation(run_dir: str, evaluation: Mapping[str, Any]) -> Result:
  """Makes a Result from one level's entry in a run's `evaluation.json`."""
  config_path = gin_config.config_path(run_dir)
  starts = [entry for entry in history.read(run_dir) if 'command' in entry]
  command = starts[0]['command'] if starts else ''
  machines, commits = (
      '; '.join(dict.fromkeys(
          start[name] for start in starts if name in start))
      for name in ('machine', 'commit'))
  row = next((row for row in reversed(metrics.read_rows(run_dir))
              if row['frames'] <= evaluation['trained_frames']), {})
  return Result(
      task=evaluation['level'],
      config=_config_of(command), config_hash=hashlib.sha256(
          files.read(config_path)).hexdigest()[:12],
      seed=gin_config.load(config_path).experiment.seed,
      frames=evaluation['trained_frames'],
      updates=int(evaluation['checkpoint'].rpartition('-')[2]),
      minutes=round(row['secs'] / 60, 1) if row else None,
      machine=machines, score=evaluation['mean'],
      standard_error=evaluation['standard_error'],
      games=evaluation['episodes'],
      protocol=DETERMINISTIC if evaluation['deterministic'] else SAMPLED,
      commit=commits, command=command,
      curve=curve(run_dir))


def curve(run_dir: str) -> str:
  """Returns a run's path from the working directory; a URL as it is."""
  return run_dir if files.is_url(run_dir) else os.path.relpath(run_dir)


def _config_of(command: str) -> str:
  """Returns the .gin file that a command line names, or ''."""
  names = shipped.config_names()
  words = shlex.split(command.replace('--config ', '--config='))
  for before, word in zip(['', *words], words):
    name = word.removeprefix('--config=')
    if name.endswith('.gin') and name[0] != '-':
      return name
    # After a flag without '=' it may be the flag's value.
    if name in names and (before[:1] != '-' or '=' in before):
      return f'configs/{name}.gin'
  return ''


def read(path: str) -> list[Result]:
  """Reads all results; raises UserError for a file with other content."""
  if not files.exists(path):
    return []
  try:
    header, *lines = csv.reader(io.StringIO(files.read(path).decode()))
    if tuple(header) != Result._fields:
      raise ValueError('other columns')
    return [Result._make(
        text if name not in _TYPES else _TYPES[name](text) if text else None
        for name, text in zip(header, line)) for line in lines]
  except (TypeError, ValueError) as error:
    raise config_lib.UserError(
        f'{path} holds no results ({files.one_line(error)}); choose another '
        'file for --record') from error


def add(path: str, result: Result) -> None:
  """Adds a result to a file, and makes the file if it is missing.

  The result replaces an earlier one of the same agent and protocol. Evaluations
  on one machine may add to a file on its disk at the same time.
  """
  def agent(r):  # The run may have been started again since.
    return r._replace(
        score=0., standard_error=None, games=None, machine='', commit='')

  with contextlib.ExitStack() as stack:
    if not files.is_url(path):
      directory = os.open(os.path.dirname(path) or '.', os.O_RDONLY)
      stack.callback(os.close, directory)
      fcntl.flock(directory, fcntl.LOCK_EX)
    files.write(path, results_lib.as_csv([Result._fields, *[
        r for r in read(path) if agent(r) != agent(result)], result]).encode())
