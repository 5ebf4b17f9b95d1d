"""A real training run, which is measured and suspended in turns."""

import os
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, NamedTuple, Sequence

import psutil

from impala_tf.monitoring import metrics
from impala_tf.processes import user_modules

_START_TIMEOUT_SECS = 300
_POLL_SECS = 0.02
# Far more than any benchmark takes; the learning rate stays what it is.
_ENDLESS = 10**12


class Window(NamedTuple):
  """A stretch of training from one row of metrics to another.

  Attributes:
    frames: environment frames that were learned from.
    secs: wall time.
    cpu_secs: CPU time of each role: 'learner', 'actors', 'supervisor' or, in a
      single process, 'in_process'.
    stolen_secs: time of all this process's cores that the host gave to others.
    rows: rows of metrics, without the one that the window began with.
  """
  frames: int
  secs: float
  cpu_secs: Dict[str, float]
  stolen_secs: float
  rows: List[metrics.Row]


class TrainingRun:
  """A run of `launch.train`, in a directory that is removed at the end.

  Attributes:
    run_dir: directory of the run.
    start_secs: time from the command to the first row of metrics, which is
      written after the first update (or up to 5 s later).
    peak_rss_mib: peak of the resident memory of all processes together; pages
      that they share, such as libraries, are counted once.
  """

  def __init__(self, config_path: str, bindings: Sequence[str]):
    self._directory = tempfile.TemporaryDirectory(prefix='impala_benchmark_')
    self.run_dir = os.path.join(self._directory.name, 'run')
    flags = [f'--gin_binding={b}' for b in (
        *bindings, f'ExperimentConfig.total_frames = {_ENDLESS}')]
    start = time.monotonic()
    self._train = psutil.Popen(
        [sys.executable, '-m', 'launch.train', config_path,
         f'--run_dir={self.run_dir}', *flags, *user_modules.flags()],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    self._rows = metrics.RowReader(self.run_dir)
    self.peak_rss_mib = 0.
    try:
      self._next_rows()
    except BaseException:
      self.close()
      raise
    self.start_secs = time.monotonic() - start

  def measure(self, secs: float) -> Window:
    """Measures training between two rows of metrics.

    Args:
      secs: least time from the first row to the last.
    """
    self._rows.new_rows()
    first = self._next_rows()[-1]
    cpu_start, stolen_start = self._cpu_secs(), _stolen_secs()
    rows = [first]
    while rows[-1]['secs'] - first['secs'] < secs:
      rows += self._next_rows()
      self._note_memory()
    cpu_end, stolen_end = self._cpu_secs(), _stolen_secs()
    return Window(
        frames=rows[-1]['frames'] - first['frames'],
        secs=rows[-1]['secs'] - first['secs'],
        cpu_secs={role: cpu_end[role] - cpu_start[role] for role in cpu_end},
        stolen_secs=stolen_end - stolen_start,
        rows=rows[1:])

  def hold(self) -> None:
    """Suspends all processes of the run until `go_on`."""
    for process in self._processes():
      process.suspend()

  def go_on(self) -> None:
    """Resumes all processes of the run after `hold`."""
    for process in self._processes():
      process.resume()

  def close(self) -> None:
    """Ends the run and removes its directory."""
    processes = self._processes()
    for process in processes:
      process.kill()
    psutil.wait_procs(processes)
    self._directory.cleanup()

  def _processes(self):
    try:
      return [self._train] + self._train.children(recursive=True)
    except psutil.NoSuchProcess:
      return []

  def _cpu_secs(self) -> Dict[str, float]:
    secs: Dict[str, float] = {}
    for process in self._processes():
      command = process.cmdline()
      role = 'supervisor'
      if 'launch.role' in command:
        role = 'actors' if 'actor' in command else 'learner'
      times = process.cpu_times()
      secs[role] = secs.get(role, 0.) + times.user + times.system
    if len(secs) == 1:
      return {'in_process': secs['supervisor']}
    return secs

  def _note_memory(self):
    rss = sum(process.memory_full_info().pss for process in self._processes())
    self.peak_rss_mib = max(self.peak_rss_mib, rss / 2**20)

  def _next_rows(self) -> List[metrics.Row]:
    """Waits until rows of metrics are written, and returns them."""
    deadline = time.monotonic() + _START_TIMEOUT_SECS
    while True:
      rows = self._rows.new_rows()
      if rows:
        return rows
      if self._train.poll() is not None:
        raise RuntimeError(f'training ended with exit code {self._train.poll()}'
                           '; its errors are above')
      if time.monotonic() > deadline:
        raise TimeoutError(
            f'no update within {_START_TIMEOUT_SECS} s; see '
            f'{self.run_dir}/logs')
      time.sleep(_POLL_SECS)


def _stolen_secs() -> float:
  """Returns how long the host has kept this process's cores from running."""
  times = psutil.cpu_times(percpu=True)
  return sum(times[core].steal for core in os.sched_getaffinity(0))
