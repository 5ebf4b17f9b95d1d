"""Profiles of a run: updates for TensorBoard, and the time budget of unrolls.

Only the profile of updates imports TensorFlow.
"""

import contextlib
import json
import os
import statistics
import time
from typing import Any, Callable, Mapping

from impala_tf import config as config_lib
from impala_tf.runs import metrics
from impala_tf.storage import files

_SKIPPED_UPDATES = 20  # The first build graphs and allocate memory.
_PROFILED_UPDATES = 5
_WRITE_INTERVAL_SECS = 2.
_DIRECTORY = 'profile'
_ROWS = 12  # The last minute.
_LABELS = {
    'weights': 'waiting for weights',
    'environment': 'stepping',
    'assembly': 'assembling unrolls',
    'write': 'writing to Reverb',
    'queue_full': 'blocked on the queue',
}


def forget(run_dir: str) -> None:
  """Removes the times that actors of earlier starts have measured."""
  with contextlib.suppress(FileNotFoundError):
    files.remove(os.path.join(run_dir, _DIRECTORY))


class LearnerProfiler:
  """A callback that profiles a few updates for TensorBoard."""

  def __init__(self, run_dir: str):
    import tensorflow as tf
    self._profiler = tf.profiler.experimental
    self._log_dir = os.path.join(run_dir, 'tensorboard')
    self._num_updates = 0

  def after_update(self, update: Any) -> None:
    del update
    self._num_updates += 1
    if self._num_updates == _SKIPPED_UPDATES:
      self._profiler.start(self._log_dir)
    elif self._num_updates == _SKIPPED_UPDATES + _PROFILED_UPDATES:
      self._profiler.stop()


class HopTimesWriter:
  """A writer of a file with an actor's mean seconds per unroll in each hop."""

  def __init__(self, run_dir: str, name: str,
               clock: Callable[[], float] = time.monotonic):
    self._path = os.path.join(run_dir, _DIRECTORY, f'{name}.json')
    files.make_directory(os.path.dirname(self._path))
    self._num_unrolls = 0
    self._clock = clock
    self._last_write = clock()

  def add_unroll(self, secs: Mapping[str, float]) -> None:
    """Counts an unroll, writes if due; `secs` are the actor's totals by hop."""
    self._num_unrolls += 1
    if self._clock() - self._last_write < _WRITE_INTERVAL_SECS:
      return
    self._last_write = self._clock()
    files.write_json(self._path, {
        name: total / self._num_unrolls for name, total in secs.items()})


def time_budget(config: config_lib.Config, run_dir: str) -> dict[str, float]:
  """Computes the mean seconds that an unroll spends in each hop, in order.

  Actors measure their hops. The wait in the queue follows from Little's law;
  batching is the rest of the policy lag, which counts from the fetching of
  parameters to learning. It is empty if the run ended too soon.
  """
  directory = os.path.join(run_dir, _DIRECTORY)
  hop_times = [json.loads(files.read(os.path.join(directory, name)))
               for name in files.names(directory) if name.endswith('.json')]
  rows = metrics.read_rows(run_dir)[-_ROWS:]
  if not hop_times or len(rows) < 2:
    return {}

  def mean_of(name):
    return statistics.fmean(row[name] for row in rows)

  updates = rows[-1]['updates'] - rows[0]['updates']
  update_secs = (rows[-1]['secs'] - rows[0]['secs']) / updates
  budget = {name: statistics.fmean(times[name] for times in hop_times)
            for name in hop_times[0]}
  playing_secs = sum(budget.values())
  budget['in the queue'] = (
      mean_of('queue_occupancy') * config.learner.queue_capacity
      / config.num_fresh * update_secs)
  budget['batching'] = max(0., mean_of('policy_lag') * update_secs
                           - playing_secs - budget['in the queue'])
  budget['learning'] = (1 - mean_of('learner_wait_share')) * update_secs
  return budget


def show_time_budget(config: config_lib.Config, run_dir: str) -> None:
  """Prints the time budget of a run as a table, see `time_budget`."""
  budget = time_budget(config, run_dir)
  if not budget:
    print('No time budget: the run ended before there was one')
    return
  total = sum(budget.values())
  print(f'\n{"the life of an unroll":22}{"ms":>10}{"share":>10}')
  for name, secs in {**budget, 'all': total}.items():
    print(f'{_LABELS.get(name, name):22}{secs * 1e3:10.1f}{secs / total:10.1%}')
  print()
