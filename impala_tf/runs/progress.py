"""The live progress line, made from the rows of `metrics.jsonl`."""

import contextlib
import datetime
import logging
import math
import os
import pathlib
import shutil
import threading
import time
from typing import Callable

import rich.console
import rich.live
import rich.text

from impala_tf import config as config_lib
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from impala_tf.runs import warning_signs
from impala_tf.runtime import child
from impala_tf.storage import files
from impala_tf.storage import line_log


def format_row(row: metrics.Row, total_frames: int) -> str:
  """Returns a line: return, frames, metrics, speed, time left, lag, entropy.

  The important parts come first, since narrow terminals cut the end off. An
  unknown speed is 0.
  """
  frames, speed = row['frames'], row['frames_per_sec']
  parts = []
  if row.get('episode_return') is not None:
    parts.append(f'return {row["episode_return"]:.2f} '
                 f'(last {min(row["episodes"], metrics.EPISODE_WINDOW)})')
  if row.get(metrics.HEADLINE) is not None:
    parts.append(f'human-normalised {row[metrics.HEADLINE]:.1%}')
  if row.get('evaluated_return') is not None:
    cut = row.get('evaluated_cut')
    parts.append(f'evaluated {row["evaluated_return"]:.2f}' +
                 (f' ({cut} games cut off)' if cut else ''))
  parts.append(f'{frames:,d} frames ({frames / total_frames:.1%})')
  parts += [f'{name.removeprefix("episode/")} {value:.2f}'
            for name, value in row.items()
            if name.startswith('episode/') and value is not None]
  if speed:
    # A total that means 'for ever' is beyond what a timedelta holds.
    left = min(round(max(total_frames - frames, 0) / speed), 10**13)
    parts += [f'{speed:,.0f} frames/s',
              f'ETA {datetime.timedelta(seconds=left)}']
  parts.append(f'lag {row["policy_lag"]:.1f}')
  if row.get('entropy') is not None:
    parts.append(f'entropy {row["entropy"]:.2f}')
  return ' · '.join(parts)


_REMOTE_INTERVAL_SECS = 5.
_SILENT_SECS = 10.  # Without an update, before a line says why.
_LEAST_FREE_BYTES = 1 << 20  # On a disk, for rows and logs.
_NOTEBOOK_WIDTH = 120  # Of a line, so that nothing of the last one stays.


class ProgressLine:
  """A line that is rewritten on a terminal and in a notebook.

  Elsewhere it is printed anew. While it is shown, log messages are printed
  above it, but of other libraries' only warnings.
  """

  def __init__(self, config: config_lib.Config,
               clock: Callable[[], float] = time.monotonic,
               has_callbacks: bool = False):
    """Prepares a line that shows at most one row per `log_interval_secs`.

    With callbacks, or in one process, no line is rewritten: a debugger may ask.
    """
    self._total_frames = config.experiment.total_frames
    self._interval_secs = config.experiment.log_interval_secs
    self._signs = warning_signs.WarningSigns(config)
    self._clock = clock
    self._silent_until = clock() + _SILENT_SECS
    self._shown: metrics.Row = {}
    self._newest: metrics.Row = {}
    self._console = rich.console.Console(highlight=False)
    self._live = None
    # FORCE_COLOR makes files interactive, too.
    if self._console.is_interactive and self._console.file.isatty() and not (
        has_callbacks or config.experiment.in_process):
      self._live = rich.live.Live('starting …', console=self._console,
                                  auto_refresh=False)

  def __enter__(self):
    if self._live:
      self._live.start(refresh=True)
    # After `start`, which puts itself in front of stderr: log messages are
    # printed above the line and do not tear it.
    root = logging.getLogger()
    self._logged_before = root.handlers[:], root.level
    root.handlers[:] = [logging.StreamHandler(), *(
        handler for handler in root.handlers
        if isinstance(handler, logging.FileHandler))]  # The user's own.
    root.setLevel(logging.INFO)
    root.handlers[0].addFilter(
        lambda record: record.name == 'absl' or record.levelno > logging.INFO)
    return self

  def __exit__(self, *unused):
    if self._newest != self._shown:
      self._show(self._newest)
    root = logging.getLogger()
    root.handlers[:], level = self._logged_before
    root.setLevel(level)
    if self._live:
      self._live.stop()
    elif self._console.is_jupyter:
      print()

  def show(self, row: metrics.Row) -> None:
    """Shows a row, unless one was shown within `log_interval_secs` before."""
    self._newest = row
    for warning in self._signs.notice(row):
      logging.warning('warning: %s', warning)
    # A learner that goes on from an older checkpoint counts from that again.
    if not self._shown or not (
        0 <= row['secs'] - self._shown['secs'] < self._interval_secs):
      self._show(row)

  def explain_silence(self, log_dir: str) -> None:
    """Prints a note once if no row was shown within 10 s of the start."""
    if not self._shown and self._clock() >= self._silent_until:
      self._silent_until = math.inf
      self._print('waiting for the first update: environments start and play '
                  f'(logs in {log_dir})')

  def _show(self, row: metrics.Row) -> None:
    # The speed since the last line, whatever rows came between. It is unknown
    # for the first (processes have started meanwhile), and if frames were lost.
    secs = row['secs'] - self._shown.get('secs', row['secs'])
    frames = row['frames'] - self._shown.get('frames', row['frames'])
    speed = max(0., frames / secs) if secs > 0 else 0.
    self._newest = self._shown = {**row, 'frames_per_sec': speed}
    self._print(format_row(self._shown, self._total_frames))

  def _print(self, line: str) -> None:
    if self._live:
      self._live.update(rich.text.Text(line, no_wrap=True), refresh=True)
    elif self._console.is_jupyter:
      print(f'\r{line:{_NOTEBOOK_WIDTH}}', end='', flush=True)
    else:
      self._console.print(rich.text.Text(line), soft_wrap=True)


class NewestRow:
  """A reader of new rows and log remarks that a run writes from now on."""

  def __init__(self, run_dir: str):
    self._rows = metrics.RowReader(run_dir)
    # Of rows that were read: a learner that starts over writes the file anew.
    self._past = {row['secs'] for row in self._rows.new_rows()}
    self._evaluations = metrics.RowReader(
        os.path.join(run_dir, run_directory.EVALUATION))
    self._evaluated: metrics.Row = {}
    self._log_dir = run_directory.logs_path(run_dir)
    self._logs: dict[pathlib.Path, line_log.Reader] = {}
    self._remarks: set[bytes] = set()
    self._new_remarks()  # Those of earlier starts may be out of date.
    # Remote files may take long to answer, and a supervisor has more to do.
    self._is_remote = files.is_url(run_dir)
    self._is_full = False
    self._reading: threading.Thread | None = None
    self._next_time = 0.
    self._found: metrics.Row | None = None

  def _read(self) -> metrics.Row | None:
    for evaluation in self._evaluations.new_rows()[-1:]:
      self._evaluated = {
          'evaluated_return': evaluation['episode_return'],
          'evaluated_cut': evaluation.get('episodes_cut')}
    rows = self._rows.new_rows()
    is_new = rows and rows[-1]['secs'] not in self._past
    self._past.update(row['secs'] for row in rows)
    return {**rows[-1], **self._evaluated} if is_new else None

  def _read_meanwhile(self) -> metrics.Row | None:
    """Returns a thread's newest row or None; starts the next read if due."""
    if self._reading is not None and self._reading.is_alive():
      return None
    found, self._found = self._found, None
    if time.monotonic() >= self._next_time:
      self._next_time = time.monotonic() + _REMOTE_INTERVAL_SECS
      self._reading = threading.Thread(target=self._find, daemon=True)
      self._reading.start()
    return found

  def _find(self) -> None:
    try:
      self._found = self._read()
    except (config_lib.UserError, OSError) as error:
      logging.warning('Progress cannot be read: %s', error)

  def show(self, line: ProgressLine) -> None:
    row, remarks = None, []
    with contextlib.suppress(config_lib.UserError, OSError):  # Read next time.
      row = self._read_meanwhile() if self._is_remote else self._read()
      remarks = self._new_remarks()
      # The logs that would say so are on it.
      if not (self._is_remote or self._is_full) and (
          shutil.disk_usage(self._log_dir).free < _LEAST_FREE_BYTES):
        self._is_full = True
        logging.warning('warning: the disk of %s is full: rows, logs and '
                        'checkpoints are lost; make room', self._log_dir)
    for remark in remarks:
      self._remarks.add(remark)
      logging.warning('%s', remark.decode(errors='replace'))
    if row:
      line.show(row)
    else:
      line.explain_silence(self._log_dir)

  def _new_remarks(self) -> list[bytes]:
    """Returns new remarks in the logs, without repeats by several actors."""
    found: dict[bytes, None] = {}
    for path in sorted(pathlib.Path(self._log_dir).glob('*.log')):
      log = self._logs.setdefault(path, line_log.open_for_reading(str(path)))
      found |= dict.fromkeys(line for line in log.new_lines()
                             if line.startswith(child.REMARK.encode()))
    return [line for line in found if line not in self._remarks]
