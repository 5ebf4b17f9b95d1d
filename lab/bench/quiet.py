"""Checks whether other processes use the cores of a benchmark."""

import os
import sys
import time
from typing import NamedTuple

import psutil

from impala_tf.runtime import sizing

# A machine at rest stays below: monitoring and kernel threads take a hundredth.
_MAX_OTHERS_SHARE = 0.05
_MAX_LOAD = 0.5  # A core.


class CoreTimes(NamedTuple):
  """Times of all cores that this process may use, added up."""
  busy_secs: float  # In which they ran any process.
  stolen_secs: float  # That the host gave to others.

  def __sub__(self, other: 'CoreTimes') -> 'CoreTimes':
    return CoreTimes(self.busy_secs - other.busy_secs,
                     self.stolen_secs - other.stolen_secs)


def core_times() -> CoreTimes:
  """Reads the cores' busy and stolen times since the machine's start."""
  times = psutil.cpu_times(percpu=True)
  cores = [times[core] for core in os.sched_getaffinity(0)]
  return CoreTimes(
      sum(t.user + t.nice + t.system + t.irq + t.softirq for t in cores),
      sum(t.steal for t in cores))


def others_share(secs: float = 1.) -> float:
  """Sleeps for `secs`; returns the cores' share that other processes used."""
  start, before = time.monotonic(), core_times()
  time.sleep(secs)
  busy_secs = (core_times() - before).busy_secs
  return busy_secs / (time.monotonic() - start) / sizing.num_cores()


def warn() -> None:
  """Measures load for a second; warns on stderr if the machine is busy."""
  warning = explain(others_share(), os.getloadavg()[0], sizing.num_cores())
  if warning:
    print(f'warning: {warning}', file=sys.stderr, flush=True)


def explain(share: float, load: float, cores: int) -> str | None:
  """Returns a line on why a machine is busy; None if it is quiet.

  `share` of the cores is used by other processes; `load` is the load average of
  the last minute.
  """
  reasons = []
  if share > _MAX_OTHERS_SHARE:
    reasons.append(f'other processes use {share:.0%} of {cores} cores')
  if load > _MAX_LOAD * cores:
    reasons.append(f'the load average of the last minute is {load:.1f}')
  if not reasons:
    return None
  return (f'the machine is busy: {", and ".join(reasons)}; frames/s will be '
          'too low, and only ratios can be compared')
