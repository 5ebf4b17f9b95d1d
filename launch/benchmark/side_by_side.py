"""Real runs side by side: all but one suspended, and measured in turns.

So changes of the host's speed cancel out.
"""

import contextlib
from typing import Dict, List, Mapping, NamedTuple, Sequence

from launch.benchmark import measure
from launch.benchmark import training

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
  order = []
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
