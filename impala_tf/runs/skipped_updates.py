"""Updates that are skipped because their gradients are not finite."""

import collections
import io
import os
import time
from typing import Any, Callable, Counter, NamedTuple

from absl import logging
import numpy as np
import tree

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.runtime import interfaces
from impala_tf.storage import files

FILE_NAME = 'skipped_batch.npz'
_WARNING_INTERVAL_SECS = 60.


class SkippedUpdates:
  """A counter of skipped updates, which ends runs after too many in a row."""

  def __init__(self, run_dir: str, max_in_a_row: int,
               clock: Callable[[], float] = time.monotonic):
    """Starts at 0; at `max_in_a_row`, `check` saves the batch in `run_dir`."""
    self.total = 0  # Since this process began.
    self._path = os.path.join(run_dir, FILE_NAME)
    self._max_in_a_row = max_in_a_row
    self._in_a_row = 0
    self._clock = clock
    self._last_warning = float('-inf')
    self._unreported: Counter[str] = collections.Counter()

  def after_update(self, update: interfaces.Update) -> None:
    """Counts an update if it was skipped, and then clears its metrics."""
    if self.add(update.metrics['gradient_norm']):
      update.metrics = {}  # They would spoil the means of the others.

  def add(self, gradient_norm: float, sender: str = '') -> bool:
    """Counts an update and returns whether it was skipped.

    It warns at most once a minute. `gradient_norm` is global, before clipping;
    `sender` names the worker that sent the update.
    """
    if np.isfinite(gradient_norm):
      self._in_a_row = 0
      return False
    self.total += 1
    self._in_a_row += 1
    if sender:
      self._unreported[sender] += 1
    now = self._clock()
    if now - self._last_warning >= _WARNING_INTERVAL_SECS:
      self._last_warning = now
      logging.warning('Updates skipped, their gradients are not finite: %d in '
                      'a row, %d in all%s', self._in_a_row, self.total,
                      self._pop_counts())
    return True

  def _pop_counts(self) -> str:
    """Returns skipped updates by worker as text, and clears their counts."""
    counts = ', '.join(f'{count} of {sender}' for sender, count in
                       self._unreported.most_common(10))
    self._unreported.clear()
    return f' ({counts})' if counts else ''

  def check(self, batch: Any) -> None:
    """Raises UserError after too many skipped updates in a row.

    The batch, if it is of unrolls, is then saved with an array for each field,
    such as 'env_outputs.reward'.
    """
    if self._in_a_row < self._max_in_a_row:
      return
    advice = 'look at rewards and observations'
    if isinstance(batch, types.Unroll):
      contents = io.BytesIO()
      np.savez_compressed(contents, **{
          '.'.join(map(str, path)): array
          for path, array in tree.flatten_with_path(batch)})
      files.write(self._path, contents.getvalue())
      advice = (f'the last batch is in {self._path}; look at its rewards and '
                'observations')
    raise config_lib.UserError(
        f'{self._in_a_row} updates in a row were skipped, their gradients '
        f'were not finite{self._pop_counts()}; {advice}, or try a lower '
        'OptimizerConfig.learning_rate')


class Limit(NamedTuple):
  """A callback that ends a run after too many skipped updates in a row.

  It comes after the log, whose last row has these updates, too.
  """
  skipped: SkippedUpdates

  def after_update(self, update: interfaces.Update) -> None:
    self.skipped.check(update.batch)
