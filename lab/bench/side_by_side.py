"""Real runs side by side: all but one suspended, and measured in turns.

So changes of the host's speed cancel out.
"""

import contextlib
import statistics
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

from lab.bench import measure
from lab.bench import training

# No measurement has a checkpoint in it, and no run that is suspended has cores
# that others may not use.
BINDINGS = ('ExperimentConfig.checkpoint_interval_secs = 1e9',
            'ExperimentConfig.log_interval_secs = 0.5',
            'ActorConfig.pinned = False')


class Measured(NamedTuple):
  """A run's measurements.

  Attributes:
    windows: stretches of training, one a round.
    peak_pss_mib: see `training.TrainingRun`.
  """
  windows: List[training.Window]
  peak_pss_mib: float


def _in_turns(names: Sequence[str], rounds: int) -> List[str]:
  """Lists who is measured when: there and back, so that drift cancels out."""
  order: List[str] = []
  for number in range(rounds):
    order += reversed(names) if number % 2 else names
  return order


def run(settings: Mapping[str, measure.Setting], rounds: int,
        secs: float) -> Dict[str, Measured]:
  """Measures real runs that are alive at once.

  Args:
    settings: what is trained, by name; with `BINDINGS`.
    rounds: how often each is measured.
    secs: time of each turn. A first one, in which queues fill and graphs are
      traced, does not count.
  """
  with contextlib.ExitStack() as stack:
    runs = {}
    for name, setting in settings.items():
      runs[name] = training.TrainingRun(setting.config_path, setting.bindings)
      stack.callback(runs[name].close)
      runs[name].hold()
    for run_ in runs.values():
      _turn(run_, secs)
    windows: Dict[str, List[training.Window]] = {name: [] for name in runs}
    for name in _in_turns(list(runs), rounds):
      windows[name].append(_turn(runs[name], secs))
    return {name: Measured(windows[name], run_.peak_pss_mib)
            for name, run_ in runs.items()}


def _turn(run_: training.TrainingRun, secs: float) -> training.Window:
  """Measures a run that is suspended otherwise."""
  run_.go_on()
  try:
    return run_.measure(secs)
  finally:
    run_.hold()


def summarise(measured: Mapping[str, Measured], reference: str
              ) -> Dict[str, Dict[str, Optional[float]]]:
  """Computes the numbers of each run.

  Args:
    measured: each run's measurements.
    reference: name of the run that the others are compared with.

  Returns:
    For each run `frames_per_sec`, `cpu_secs_per_1000_frames`, `cores` that its
    processes used, `policy_lag_updates` (the mean of rows, None where no row of
    metrics has it), and its speed relative to the reference's in the same
    round: `ratio` is the median, `ratio_low` and `ratio_high` are the ends of
    the range.
  """

  def speeds(name):
    return [window.frames / window.secs for window in measured[name].windows]

  results = {}
  for name, (windows, _) in measured.items():
    frames = sum(window.frames for window in windows)
    secs = sum(window.secs for window in windows)
    cpu_secs = sum(sum(window.cpu_secs.values()) for window in windows)
    lags = [row['policy_lag'] for window in windows for row in window.rows
            if row.get('policy_lag') is not None]
    ratios = [x / y for x, y in zip(speeds(name), speeds(reference))]
    results[name] = {
        'frames_per_sec': frames / secs,
        'ratio': statistics.median(ratios),
        'ratio_low': min(ratios),
        'ratio_high': max(ratios),
        'cpu_secs_per_1000_frames': 1e3 * cpu_secs / frames,
        'cores': cpu_secs / secs,
        'policy_lag_updates': statistics.fmean(lags) if lags else None}
  return results
