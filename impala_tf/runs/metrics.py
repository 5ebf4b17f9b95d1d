"""Rows of metrics for TensorBoard and `metrics.jsonl`, written and read back.

Only the writer imports TensorBoard, so that programs which read rows (progress,
plots) start at once.
"""

import json
import os
import time
from typing import Any, Callable, Sequence

from absl import logging
import numpy as np

from impala_tf.runtime import child
from impala_tf.storage import files
from impala_tf.storage import line_log

FILE_NAME = 'metrics.jsonl'
EPISODE_WINDOW = 100
# Of each of several levels: more would take 57 of them too long to fill.
LEVEL_EPISODE_WINDOW = 20
HEADLINE = 'capped_mean_human_normalised_score'
# In place of an episode metric that is no number; unrolls with NaN are refused.
MISSING = float(np.finfo(np.float32).min)

Row = dict[str, Any]


class MetricsWriter:
  """A writer of rows to `metrics.jsonl` and of scalars to TensorBoard.

  A row that cannot be written is dropped with a warning: training goes on.
  """

  def __init__(self, run_dir: str):
    # TensorBoard's own writer: tf.summary takes a millisecond for each scalar.
    from tensorboard.summary.writer import event_file_writer
    self._journal = line_log.open_for_appending(
        os.path.join(run_dir, FILE_NAME))
    # A store would get the whole file each time; the writer flushes by itself.
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
    summary = summary_pb2.Summary(value=[
        summary_pb2.Summary.Value(tag=name, simple_value=value)
        for name, value in row.items() if name != 'frames'])
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
      logging.warning('TensorBoard gets no further rows: %s', error)
      self._events = None  # TensorBoard's writer does not recover.

  def close(self) -> None:
    self._journal.close()
    self._try_events(lambda events: events.close())


class RowReader:
  """A reader that follows the rows of a run, which may still be training."""

  def __init__(self, run_dir: str):
    self._path = os.path.join(run_dir, FILE_NAME)
    self._journal = line_log.open_for_reading(self._path)

  def new_rows(self) -> list[Row]:
    """Returns rows since the last call; raises UserError for a damaged one."""
    return line_log.parsed(self._path, self._journal.new_lines())


def read_rows(run_dir: str) -> list[Row]:
  """Reads all rows of a run, oldest first; empty without a file.

  `run_dir` may also be the path or URL of a file like `metrics.jsonl`. Raises
  UserError if it holds something else.
  """
  if os.path.isfile(run_dir) or os.path.splitext(run_dir)[1] == '.jsonl':
    return line_log.parsed(run_dir, files.read(run_dir).splitlines())
  return RowReader(run_dir).new_rows()


def points(rows: Sequence[Row], metric: str,
           x: str = 'frames') -> list[tuple[float, float]]:
  """Returns pairs of `x` and `metric` from the rows with numbers for both."""
  return [(row[x], row[metric]) for row in rows if all(
      isinstance(row.get(name), (int, float)) for name in (x, metric))]


def drop_rows_after(run_dir: str, frames: int) -> None:
  """Deletes a run's rows beyond `frames`, which a resumed run writes again.

  If these are most, `metrics.jsonl.old` keeps all. Raises UserError for a
  damaged line.
  """
  path = os.path.join(run_dir, FILE_NAME)
  old = f'{path}.old'
  ahead = [row['frames'] > frames for row in read_rows(run_dir)]
  if 2 * sum(ahead) > len(ahead):
    child.remark(f'{sum(ahead)} of {len(ahead)} rows of {path} are ahead of '
                 f'the learner; {old} keeps all')
    files.write(old, b''.join(
        map(files.read, filter(files.exists, (old, path)))))
  line_log.keep(path, lambda line: line_log.parsed(
      path, [line])[0]['frames'] <= frames)
