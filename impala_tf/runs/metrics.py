"""Rows of metrics for TensorBoard and `metrics.jsonl`, written and read back.

Only the writer imports TensorBoard, so that programs which read rows (progress,
plots) start at once.
"""

import json
import os
import time
from typing import Any, Callable, Dict, List

from absl import logging
import numpy as np

from impala_tf.storage import files
from impala_tf.storage import line_log

FILE_NAME = 'metrics.jsonl'
EPISODE_WINDOW = 100

Row = Dict[str, Any]


class MetricsWriter:
  """A writer of rows to `metrics.jsonl` and of scalars to TensorBoard.

  A row that cannot be written is dropped with a warning: training goes on.
  """

  def __init__(self, run_dir: str):
    """Opens both files in a run's directory, a path or URL that must exist."""
    # TensorBoard's own writer: tf.summary takes a millisecond for each scalar.
    from tensorboard.compat.proto import event_pb2
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.summary.writer import event_file_writer
    self._make_event = event_pb2.Event
    self._make_summary = summary_pb2.Summary
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
    summary = self._make_summary()
    for name, value in row.items():
      if name != 'frames':
        summary.value.add(tag=name, simple_value=value)
    events.add_event(self._make_event(
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
    """Returns rows since the last call, oldest first; none without a file.

    An incomplete last line is left for later: it is being written, or was cut
    short by a kill. After `drop_rows_after` the reader restarts at the first
    row.
    """
    return [json.loads(line) for line in self._journal.new_lines()]


def read_rows(run_dir: str) -> List[Row]:
  """Reads all rows of a run, oldest first."""
  return RowReader(run_dir).new_rows()


def drop_rows_after(run_dir: str, frames: int) -> None:
  """Drops rows beyond a checkpoint's frames; a resumed run writes them."""
  line_log.keep(os.path.join(run_dir, FILE_NAME),
               lambda line: json.loads(line)['frames'] <= frames)
