"""Growth of a run's memory over many minutes."""

import statistics
from typing import Any, Callable, Dict, List

from lab.bench import measure
from lab.bench import training

# Until then buffers fill and graphs are traced.
_SETTLE_MINUTES = 5.
# Memory has dips of 3 % from second to second.
_LOOKS = 12
_SECS_A_LOOK = 5.


def run(setting: measure.Setting, minutes: float) -> Dict[str, Any]:
  """Measures how much more memory a run has after some minutes.

  Args:
    setting: configuration that is trained.
    minutes: time after the first five minutes.

  Returns:
    See `summarise`.
  """
  train = training.TrainingRun(setting.config_path, setting.bindings)
  try:
    train.go_on_for(_SETTLE_MINUTES * 60)
    before = _look(train)
    # From the middle of one series of looks to the middle of the other.
    train.go_on_for(max(0., minutes * 60 - _LOOKS * _SECS_A_LOOK))
    after = _look(train)
  finally:
    train.close()
  return {'setting': setting.name, 'minutes': minutes,
          **summarise(before, after)}


def _look(train: training.TrainingRun) -> List[Dict[str, float]]:
  looks = []
  for _ in range(_LOOKS):
    train.go_on_for(_SECS_A_LOOK)
    looks.append(train.own_mib())
  return looks


def summarise(before: List[Dict[str, float]],
              after: List[Dict[str, float]]) -> Dict[str, Any]:
  """Compares the memory of two times.

  Args:
    before: MiB of each role, one entry for each look at the run. A role that
      an entry lacks had no process then.
    after: as many looks, later.

  Returns:
    MiB at both times by role ('all' is their sum), and the growth of the sum.
  """
  def mib(select: Callable[[Dict[str, float]], float]) -> Dict[str, float]:
    return {'before': statistics.fmean(map(select, before)),
            'after': statistics.fmean(map(select, after))}

  names = dict.fromkeys(role for look in before + after for role in look)
  roles = {role: mib(lambda look, role=role: look.get(role, 0.))
           for role in names}
  roles['all'] = mib(lambda look: sum(look.values()))
  return {'mib': roles,
          'growth': roles['all']['after'] / roles['all']['before'] - 1}
