"""A real training run, which is measured and suspended in turns."""

import collections
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Callable, NamedTuple, Sequence

import psutil

from impala_tf.runs import metrics
from impala_tf.runtime import program
from impala_tf.runtime import user_modules
from lab.bench import quiet

_START_TIMEOUT_SECS = 900  # Maps of DeepMind Lab are compiled, say.
_POLL_SECS = 0.02
# Far more than any benchmark takes; the learning rate stays what it is.
_ENDLESS = 10**12


def raise_on_sigterm() -> None:
  """Makes SIGTERM raise SystemExit, so that a `TrainingRun` is closed, too."""
  signal.signal(signal.SIGTERM, lambda signum, _: sys.exit(128 + signum))


class Window(NamedTuple):
  """A stretch of training from one row of metrics to another."""
  frames: int  # Environment frames that were learned from.
  secs: float  # Wall time.
  # CPU time of each role: 'learner', 'actors', 'supervisor' or, in a single
  # process, 'in_process'.
  cpu_secs: dict[str, float]
  stolen_secs: float  # That the host gave to others, of all cores here.
  busy_secs: float  # In which these cores ran any process.
  rows: list[metrics.Row]  # Without the one that the window began with.


# Errors of a look at a process that has ended since it was listed.
_ENDED = psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError


def process_tree(process: psutil.Process) -> list[psutil.Process]:
  """Lists a process and its descendants; empty if the process has ended."""
  try:
    return [process, *process.children(recursive=True)]
  except psutil.NoSuchProcess:
    return []


def kill(process: psutil.Process) -> None:
  """Kills a process and all its descendants."""
  processes = process_tree(process)
  for member in processes:
    with contextlib.suppress(psutil.NoSuchProcess):
      member.kill()
  psutil.wait_procs(processes)


class TrainingRun:
  """A run of `impala_tf.cli.train`, in a directory that is removed at the end.

  Attributes:
    run_dir: directory of the run.
    start_secs: time from the command to the first row of metrics, which is
      written after the first update (or up to 5 s later).
    peak_pss_mib: most memory of all processes together at the ends of
      measurements; pages that they share, such as libraries, are counted once.
  """

  def __init__(self, config_path: str, bindings: Sequence[str]):
    self._directory = tempfile.TemporaryDirectory(prefix='impala_benchmark_')
    self.run_dir = os.path.join(self._directory.name, 'run')
    flags = [f'--gin_binding={b}' for b in (
        *bindings, f'ExperimentConfig.total_frames = {_ENDLESS}')]
    start = time.monotonic()
    self._train = psutil.Popen(
        [sys.executable, '-m', 'impala_tf', 'train', config_path,
         f'--run_dir={self.run_dir}', *flags, *user_modules.flags()],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    self._rows = metrics.RowReader(self.run_dir)
    self.peak_pss_mib = 0.
    try:
      self._next_rows()
    except BaseException:
      self.close()
      raise
    self.start_secs = time.monotonic() - start
    # The learner has written a row of what actors sent, so they are there.
    self._roles = list(dict.fromkeys(role for role, _ in self._by_role()))

  def measure(self, secs: float) -> Window:
    """Measures training between two rows, at least `secs` apart."""
    self._rows.new_rows()
    first = self._next_rows()[-1]
    cpu_start, cores_start = self._cpu_secs(), quiet.core_times()
    rows = [first]
    while rows[-1]['secs'] - first['secs'] < secs:
      rows += self._next_rows()
    cpu_end, cores = self._cpu_secs(), quiet.core_times() - cores_start
    # Not before: to look at the pages of many processes takes a while.
    self.peak_pss_mib = max(self.peak_pss_mib, sum(self.pss_mib().values()))
    return Window(
        frames=rows[-1]['frames'] - first['frames'],
        secs=rows[-1]['secs'] - first['secs'],
        cpu_secs={role: cpu_end[role] - cpu_start[role] for role in cpu_end},
        stolen_secs=cores.stolen_secs,
        busy_secs=cores.busy_secs,
        rows=rows[1:])

  def actor_pids(self) -> list[int]:
    """Returns the actors' process ids; empty if the run is one process."""
    return [process.pid for role, process in self._by_role()
            if role == 'actors' and 'impala_tf' in process.cmdline()]

  def pss_mib(self) -> dict[str, float]:
    """Returns the memory of each role; shared pages are counted once."""
    return self._sum_by_role(
        lambda process: process.memory_full_info().pss / 2**20)

  def hold(self) -> None:
    """Suspends all processes of the run until `go_on`."""
    for process in process_tree(self._train):
      with contextlib.suppress(psutil.NoSuchProcess):
        process.suspend()

  def go_on(self) -> None:
    """Resumes all processes of the run after `hold`."""
    for process in process_tree(self._train):
      with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()

  def close(self) -> None:
    """Ends the run and removes its directory."""
    kill(self._train)
    self._directory.cleanup()

  def _cpu_secs(self) -> dict[str, float]:
    def cpu_secs(process):
      # With that of children that have ended, such as compilers of maps.
      return sum(process.cpu_times()[:4])
    return self._sum_by_role(cpu_secs)

  def _sum_by_role(self, measure: Callable[[psutil.Process], float]
                   ) -> dict[str, float]:
    # A role is 0 while its processes have died and are not yet there again.
    sums = collections.defaultdict(float, dict.fromkeys(self._roles, 0.))
    for role, process in self._by_role():
      with contextlib.suppress(*_ENDED):
        sums[role] += measure(process)
    if len(sums) == 1:
      return {'in_process': sums['supervisor']}
    return sums

  def _by_role(self) -> list[tuple[str, psutil.Process]]:
    roles: list[tuple[str, psutil.Process]] = []
    for process in process_tree(self._train):
      role, command = 'supervisor', []
      with contextlib.suppress(psutil.NoSuchProcess):
        command, parent = process.cmdline(), process.ppid()
        # A process of environments is its actor's.
        role = next((r for r, p in roles if p.pid == parent), role)
      if 'impala_tf' in command and 'role' in command:
        role = 'actors' if 'actor' in command else 'learner'
      roles.append((role, process))
    return roles

  def _next_rows(self) -> list[metrics.Row]:
    """Waits until rows of metrics are written, and returns them."""
    deadline = time.monotonic() + _START_TIMEOUT_SECS
    while True:
      rows = self._rows.new_rows()
      if rows:
        return rows
      if self._train.poll() is not None:
        raise program.RunFailed(
            f'training ended with exit code {self._train.poll()}; its '
            'errors are above')
      if time.monotonic() > deadline:
        raise TimeoutError(
            f'no update within {_START_TIMEOUT_SECS} s; see '
            f'{self.run_dir}/logs')
      time.sleep(_POLL_SECS)
