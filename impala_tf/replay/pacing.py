"""The pace of agents that share a replay: none leads the slowest by much.

Schmitt et al. 2020, section 5.1: agents that share a replay "run concurrently
at identical speed". So a learner waits before a batch that would put it ahead
of the slowest agent by more than 1 % of its frames. The slowest can always
continue. An agent that falls silent is ignored after a minute, one that never
came after ten. Once it is heard again, others wait for it again, since all
agents of a sweep should learn from each other.

Progress is counted in thousandths of an agent's frames.
"""

import math
import time
from typing import Callable, Dict, Mapping, NamedTuple, Optional

from absl import logging

DONE = 1000  # Thousandths.
_MAX_LEAD = 10
_SILENT_SECS = 60.
_COME_SECS = 600.
# Looks are a fraction of a second apart. After a longer time, this process was
# stopped or the replay away, and others could not be heard.
_MAX_LOOK_SECS = 2.


class Report(NamedTuple):
  """An agent's report in the replay."""
  progress: int  # Thousandths of the agent's frames.
  pulse: int  # Grows as long as the agent lives.


class _Other:
  """Another agent's progress, and the time since its last pulse."""

  def __init__(self, report: Report):
    self.progress = report.progress
    self._pulse = report.pulse
    self._was_seen = report.pulse > 0
    self._silent_secs = 0.

  @property
  def is_silent(self) -> bool:
    """Whether it was silent for so long that nobody waits for it."""
    return self._silent_secs >= (
        _SILENT_SECS if self._was_seen else _COME_SECS)

  def take(self, report: Report, secs: float) -> None:
    """Processes the newest report, so many seconds after the last."""
    # A replay that died counts from 0 again.
    self.progress = max(self.progress, report.progress)
    if report.pulse not in (0, self._pulse):
      self._was_seen = True
      self._silent_secs = 0.
    else:
      self._silent_secs += secs
    self._pulse = report.pulse


class Pace:
  """An agent's view of the others, which decides whether it must wait."""

  def __init__(self, clock: Callable[[], float] = time.monotonic):
    self._clock = clock
    self._others: Dict[int, _Other] = {}
    self._last_look = clock()

  def look(self, reports: Mapping[int, Report]) -> None:
    """Processes the newest reports of all other agents by their numbers."""
    now = self._clock()
    secs = min(now - self._last_look, _MAX_LOOK_SECS)
    self._last_look = now
    for number, report in reports.items():
      if number not in self._others:
        self._others[number] = _Other(report)
        continue
      other = self._others[number]
      was_silent = other.is_silent
      other.take(report, secs)
      if other.is_silent and not was_silent and other.progress < DONE:
        logging.warning('Agent %d is silent and not waited for any more, at '
                        '%.1f %% of its frames', number, other.progress / 10)

  def reason_to_wait(self, share: float, next_share: float) -> Optional[str]:
    """Names the agent to wait for, and why; None if there is none.

    `share` is this agent's progress, `next_share` that after the next update.
    """
    # A copy: another thread looks meanwhile.
    waited_for = {number: other.progress for number, other in
                  list(self._others.items())
                  if other.progress < DONE and not other.is_silent}
    if not waited_for:
      return None
    slowest = min(waited_for, key=waited_for.__getitem__)
    progress = waited_for[slowest]
    # However large an update is, the slowest may always make one.
    if (math.floor(share * DONE) <= progress
        or next_share * DONE <= progress + _MAX_LEAD):
      return None
    return (f'agent {slowest} has {progress / 10:.1f} % of its frames, this '
            f'one {100 * share:.1f} %, and none may lead by more than '
            f'{_MAX_LEAD / 10:g} %')
