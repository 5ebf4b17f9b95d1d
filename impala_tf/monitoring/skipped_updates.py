"""What becomes of updates whose gradients are not finite."""

import io
import os

from absl import logging
import numpy as np

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.storage import files

FILE_NAME = 'skipped_batch.npz'


class SkippedUpdates:
  """Counts updates that the learner skipped, and ends a run of nothing else.

  Attributes:
    total: updates skipped since this process began.
  """

  def __init__(self, run_dir: str, max_in_a_row: int):
    """Begins with none.

    Args:
      run_dir: gets the batch at the end of a run that can not go on.
      max_in_a_row: so many skipped updates end it.
    """
    self.total = 0
    self._path = os.path.join(run_dir, FILE_NAME)
    self._max_in_a_row = max_in_a_row
    self._in_a_row = 0

  def add(self, gradient_norm: float) -> bool:
    """Takes an update; says whether the learner skipped it.

    Args:
      gradient_norm: of its gradients, before they were clipped.
    """
    if np.isfinite(gradient_norm):
      self._in_a_row = 0
      return False
    self.total += 1
    self._in_a_row += 1
    logging.warning('Update skipped, its gradients are not finite: %d in a '
                    'row, %d in all', self._in_a_row, self.total)
    return True

  def check(self, unroll: types.Unroll) -> None:
    """Ends the run after too many in a row.

    Args:
      unroll: the last update's batch.

    Raises:
      UserError: where it is the last in a row that may be skipped. The batch is
        saved then, an array a field: 'env_outputs.reward', for instance.
    """
    if self._in_a_row >= self._max_in_a_row:
      contents = io.BytesIO()
      np.savez_compressed(contents, **_named_arrays(unroll))
      files.write(self._path, contents.getvalue())
      raise config_lib.UserError(
          f'{self._in_a_row} updates in a row were skipped, their gradients '
          f'were not finite; the last batch is in {self._path}; look at its '
          'rewards and observations, or try a lower '
          'OptimizerConfig.learning_rate')


def _named_arrays(unroll: types.Unroll, prefix: str = ''):
  """Flattens nested tuples; names say the way to each array."""
  if not isinstance(unroll, tuple):
    return {prefix: np.asarray(unroll)}
  names = getattr(unroll, '_fields', range(len(unroll)))
  arrays = {}
  for name, value in zip(names, unroll):
    arrays.update(_named_arrays(value, f'{prefix}.{name}' if prefix else name))
  return arrays
