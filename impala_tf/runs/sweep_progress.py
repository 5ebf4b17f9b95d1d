"""Lines that programs print about their runs."""

import datetime
import time
from typing import Sequence

from impala_tf.runtime import batch
from impala_tf.sweeps import results as results_lib


class Progress:
  """Progress of a sweep, printed as a line for each run that ends."""

  def __init__(self, num_done: int, num_runs: int):
    self._before = self._num_done = num_done
    self._num_runs = num_runs
    self._start = time.monotonic()

  def show(self, result: results_lib.Result) -> None:
    """Prints the line of a run that has ended."""
    if result.status != results_lib.INTERRUPTED:
      self._num_done += 1
    parts = [f'[{self._num_done}/{self._num_runs}] {result.run.name} '
             f'{result.status}']
    if result.error:
      parts.append(result.error)
    if result.final_return is not None:
      parts.append(f'return {result.final_return:.2f}')
    if result.secs is not None:
      parts.append(f'{result.secs:.0f} s')
    here = self._num_done - self._before
    if here:
      secs = (time.monotonic() - self._start) / here
      left = secs * (self._num_runs - self._num_done)
      parts.append(f'ETA {datetime.timedelta(seconds=round(left))}')
    print(' · '.join(parts), flush=True)


def table(rows: Sequence[Sequence[str]]) -> str:
  """Returns rows as lines of text, with aligned columns.

  The first two columns are aligned to the left, the others, which are numbers,
  to the right.
  """
  widths = [max(map(len, column)) for column in zip(*rows)]
  return '\n'.join(
      '  '.join(cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
      for row in rows)


def status(ended: batch.Ended) -> str:
  """Returns the status of a run that has ended; see `results`."""
  if ended.exit_code == 0:
    return results_lib.FINISHED
  if ended.was_stopped:
    return results_lib.INTERRUPTED
  return results_lib.FAILED
