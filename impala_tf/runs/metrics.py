"""Rows of metrics for TensorBoard and `metrics.jsonl`, written and read back.

Only the writer imports TensorBoard, so that programs which read rows (progress,
plots) start at once.
"""

import collections
import json
import os
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from absl import logging
import numpy as np

from impala_tf import config as config_lib
from impala_tf.storage import files
from impala_tf.storage import line_log

FILE_NAME = 'metrics.jsonl'
EPISODE_WINDOW = 100

# Beginnings of the names of metrics of unrolls that an update may have had none
# of; its NaN is left out then.
_KINDS = ('own/', 'foreign/')

Row = Dict[str, Any]


class MetricsWriter:
  """A writer of rows to `metrics.jsonl` and of scalars to TensorBoard.

  A row that cannot be written is dropped with a warning: training goes on.
  """

  def __init__(self, run_dir: str):
    """Opens both files in a run's directory, a path or URL that must exist."""
    # TensorBoard's own writer: tf.summary takes a millisecond for each scalar.
    from tensorboard.summary.writer import event_file_writer
    self._journal = line_log.open_for_appending(
        os.path.join(run_dir, FILE_NAME))
    # An object store would get the whole file with each flush. TensorBoard's
    # writer flushes by itself every two minutes.
    self._flushes_each = not files.is_url(run_dir)
    self._events = event_file_writer.EventFileWriter(
        os.path.join(run_dir, 'tensorboard'))

  def write(self, row: Row) -> None:
    """Writes one row whole or not at all; `frames` is TensorBoard's step."""
    # JSON has no NaN: a metric that has become NaN is written as null.
    finite = {k: v if np.isfinite(v) else None for k, v in row.items()}
    line = json.dumps(finite, allow_nan=False) + '\n'
    try:
      self._journal.append(line.encode('utf-8'))
    except OSError as error:
      logging.warning('A row of %s is lost: %s', FILE_NAME, error)
    self._try_events(lambda events: self._add_event(events, row))

  def _add_event(self, events: Any, row: Row):
    from tensorboard.compat.proto import event_pb2
    from tensorboard.compat.proto import summary_pb2
    summary = summary_pb2.Summary()
    for name, value in row.items():
      if name != 'frames':
        summary.value.add(tag=name, simple_value=value)
    events.add_event(event_pb2.Event(
        wall_time=time.time(), step=row['frames'], summary=summary))
    if self._flushes_each:
      events.flush()

  def _try_events(self, action: Callable[[Any], None]):
    if self._events is None:
      return
    try:
      action(self._events)
    except Exception as error:  # Errors of TensorFlow's files are no OSErrors.
      logging.warning('TensorBoard gets no more rows from here: %s', error)
      self._events = None  # TensorBoard's writer does not recover.

  def close(self) -> None:
    self._journal.close()
    self._try_events(lambda events: events.close())


class RowReader:
  """A reader that follows the rows of a run, which may still be training."""

  def __init__(self, run_dir: str):
    """Begins before the first row of a run's directory, a path or URL."""
    self._journal = line_log.open_for_reading(os.path.join(run_dir, FILE_NAME))

  def new_rows(self) -> List[Row]:
    """Returns rows since the last call, see `line_log.open_for_reading`."""
    return [json.loads(line) for line in self._journal.new_lines()]


def read_rows(run_dir: str) -> List[Row]:
  """Reads all rows of a run, oldest first; empty without a file.

  `run_dir` may also be the path of a file like `metrics.jsonl`. Raises
  UserError if it holds something else.
  """
  path = os.path.join(run_dir, FILE_NAME)
  try:
    if os.path.isfile(run_dir):
      path = run_dir
      return [json.loads(line) for line in files.read(path).splitlines()]
    return RowReader(run_dir).new_rows()
  except ValueError as error:
    raise config_lib.UserError(
        f'{path} is damaged ({error}); remove the line that is no JSON'
    ) from error


def points(rows: Sequence[Row], metric: str,
           x: str = 'frames') -> List[Tuple[float, float]]:
  """Returns pairs of `x` and `metric` from the rows that have both."""
  return [(row[x], row[metric]) for row in rows
          if row.get(metric) is not None and row.get(x) is not None]


def drop_rows_after(run_dir: str, frames: int) -> None:
  """Drops rows beyond a checkpoint's frames; a resumed run writes them."""
  line_log.keep(os.path.join(run_dir, FILE_NAME),
               lambda line: json.loads(line)['frames'] <= frames)


class Stopwatch:
  """A stopwatch that adds up the wall time of phases that take turns."""

  def __init__(self):
    self.secs: Dict[str, float] = collections.defaultdict(float)  # By phase.
    self._last = time.perf_counter()

  def lap(self, name: Optional[str] = None) -> None:
    """Adds the time since the last call to a phase; None discards it."""
    now = time.perf_counter()
    if name is not None:
      self.secs[name] += now - self._last
    self._last = now


class EpisodeWindow:
  """Returns and lengths of the last 100 full episodes.

  Episodes with a non-finite return are counted, but not averaged.
  """

  def __init__(self):
    self._returns = collections.deque(maxlen=EPISODE_WINDOW)
    self._steps = collections.deque(maxlen=EPISODE_WINDOW)
    self.num_episodes = 0

  def add(self, is_first: np.ndarray, episode_return: np.ndarray,
          episode_steps: np.ndarray) -> None:
    """Adds the episodes that ended within a batch of unrolls.

    `is_first`, bool [T, B], says whether x_1 to x_T begin an episode: x_0 was
    the last of an earlier unroll and counted there. Raw returns are float32
    [T, B], agent steps int32 [T, B].
    """
    is_told = is_first & np.isfinite(episode_return)
    self._returns.extend(episode_return[is_told].tolist())
    self._steps.extend(episode_steps[is_told].tolist())
    self.num_episodes += int(np.sum(is_first))

  @property
  def is_full(self) -> bool:
    return len(self._returns) == EPISODE_WINDOW

  def means(self) -> Mapping[str, float]:
    """Returns mean return and length in agent steps; empty without episodes."""
    if not self._returns:
      return {}
    return {'episode_return': float(np.mean(self._returns)),
            'episode_steps': float(np.mean(self._steps))}


class Interval:
  """Means of metrics since the last row."""

  def __init__(self, interval_secs: float, frames: int, wait_secs: float):
    """Begins the first of intervals of so many seconds.

    `frames` are environment frames learned from so far, `wait_secs` seconds
    that the learner has waited for batches.
    """
    self._interval_secs = interval_secs
    self._restart(frames, wait_secs)

  def _restart(self, frames: int, wait_secs: float):
    self._start = time.monotonic()
    self._start_frames = frames
    self._start_wait_secs = wait_secs
    self._values: Dict[str, List[float]] = collections.defaultdict(list)
    self._lags: List[np.ndarray] = []

  @property
  def is_over(self) -> bool:
    return time.monotonic() - self._start >= self._interval_secs

  def add(self, metrics: Mapping[str, float], lags: np.ndarray) -> None:
    """Adds one update's metrics and the policy lags of its new unrolls."""
    for name, value in metrics.items():
      self._values[name].append(value)
    self._lags.append(lags)

  @property
  def is_empty(self) -> bool:
    return not self._lags

  def finish(self, frames: int, wait_secs: float) -> Row:
    """Returns the means since the last row and restarts; must not be empty.

    `frames` and `wait_secs` are totals so far, as in the constructor.
    """
    secs = time.monotonic() - self._start
    lags = np.concatenate(self._lags)
    row = {
        'frames_per_sec': (frames - self._start_frames) / secs,
        'learner_wait_share': (wait_secs - self._start_wait_secs) / secs,
        'policy_lag': float(np.mean(lags)),
        'policy_lag_max': int(np.max(lags)),
    }
    for name, values in self._values.items():
      numbers = np.asarray(values, np.float64)
      if name.startswith(_KINDS):
        numbers = numbers[~np.isnan(numbers)]
      if numbers.size:
        row[name] = float(np.mean(numbers))
    self._restart(frames, wait_secs)
    return row
