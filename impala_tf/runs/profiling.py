"""Profiles of a run: TensorBoard's of updates, and times of actors' hops.

Only the profile of updates imports TensorFlow.
"""

import json
import os
import time
from typing import Any, Dict, List, Mapping

from impala_tf.storage import files

_SKIPPED_UPDATES = 20  # The first build graphs and allocate memory.
_PROFILED_UPDATES = 5
_WRITE_INTERVAL_SECS = 2.
_DIRECTORY = 'profile'


class LearnerProfiler:
  """A callback that profiles a few updates for TensorBoard."""

  def __init__(self, run_dir: str):
    import tensorflow as tf
    self._profiler = tf.profiler.experimental
    self._log_dir = os.path.join(run_dir, 'tensorboard')
    self._num_updates = 0

  def after_update(self, update: Any) -> None:
    """Starts or stops the profile if it is time; `update` is not looked at."""
    del update
    self._num_updates += 1
    if self._num_updates == _SKIPPED_UPDATES:
      self._profiler.start(self._log_dir)
    elif self._num_updates == _SKIPPED_UPDATES + _PROFILED_UPDATES:
      self._profiler.stop()


class HopTimesWriter:
  """A writer that keeps a file of an actor's seconds an unroll by hop."""

  def __init__(self, run_dir: str, name: str):
    """Makes the directory; `name` is the actor's, unique in the run."""
    self._path = os.path.join(run_dir, _DIRECTORY, f'{name}.json')
    files.make_directory(os.path.dirname(self._path))
    self._num_unrolls = 0
    self._last_write = time.monotonic()

  def add_unroll(self, secs: Mapping[str, float]) -> None:
    """Counts an unroll; `secs` has the actor's total seconds by hop."""
    self._num_unrolls += 1
    if time.monotonic() - self._last_write < _WRITE_INTERVAL_SECS:
      return
    self._last_write = time.monotonic()
    files.write(self._path, json.dumps(
        {name: total / self._num_unrolls
         for name, total in secs.items()}).encode('utf-8'))


def read_hop_times(run_dir: str) -> List[Dict[str, float]]:
  """Reads each actor's seconds an unroll by hop."""
  directory = os.path.join(run_dir, _DIRECTORY)
  return [json.loads(files.read(os.path.join(directory, name)))
          for name in files.names(directory) if name.endswith('.json')]
