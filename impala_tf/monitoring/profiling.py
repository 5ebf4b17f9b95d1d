"""Where time goes: TensorBoard's profile of updates, and the actors' hops.

Only the former needs TensorFlow, so only it imports it.
"""

import json
import os
import time
from typing import Dict, List, Mapping

from impala_tf.storage import files

_SKIPPED_UPDATES = 20  # Graphs are built and memory grows in the first.
_PROFILED_UPDATES = 5
_WRITE_INTERVAL_SECS = 2.
_DIRECTORY = 'profile'


class LearnerProfiler:
  """To be called before each update; records a few for TensorBoard."""

  def __init__(self, run_dir: str):
    import tensorflow as tf
    self._profiler = tf.profiler.experimental
    self._log_dir = os.path.join(run_dir, 'tensorboard')
    self._num_calls = 0

  def __call__(self) -> None:
    """Starts and ends the profile where it is time."""
    if self._num_calls == _SKIPPED_UPDATES:
      self._profiler.start(self._log_dir)
    elif self._num_calls == _SKIPPED_UPDATES + _PROFILED_UPDATES:
      self._profiler.stop()
    self._num_calls += 1


class HopTimesWriter:
  """Keeps a file up to date with what an actor's time went to."""

  def __init__(self, run_dir: str, name: str):
    self._path = os.path.join(run_dir, _DIRECTORY, f'{name}.json')
    files.make_directory(os.path.dirname(self._path))
    self._num_unrolls = 0
    self._last_write = time.monotonic()

  def add_unroll(self, secs: Mapping[str, float]) -> None:
    """Counts one call of `Actor.run_unroll`.

    Args:
      secs: by hop, since the actor began; see `actor.Actor.stopwatch`.
    """
    self._num_unrolls += 1
    if time.monotonic() - self._last_write < _WRITE_INTERVAL_SECS:
      return
    self._last_write = time.monotonic()
    files.write(self._path, json.dumps(
        {name: total / self._num_unrolls
         for name, total in secs.items()}).encode('utf-8'))


def read_hop_times(run_dir: str) -> List[Dict[str, float]]:
  """Of each actor: seconds an unroll, by hop."""
  directory = os.path.join(run_dir, _DIRECTORY)
  return [json.loads(files.read(os.path.join(directory, name)))
          for name in files.names(directory) if name.endswith('.json')]
