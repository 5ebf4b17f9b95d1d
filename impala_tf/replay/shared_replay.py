"""Pacing of agents that share a replay: a learner waits if it leads by much.

Schmitt et al. 2020, section 5.1: agents that share a replay "run concurrently
at identical speed". So a learner waits before a batch that would put it ahead
of the slowest agent by more than 1 % of its frames. The slowest can always
continue. An agent that falls silent is ignored after a minute, one that never
came after ten. Once it is heard again, others wait for it again, since all
agents of a sweep should learn from each other.

Small tables lie beside the replay. One's name holds the fingerprint of unrolls
that may be mixed. Each agent has two more, whose numbers of inserts are its
progress, in thousandths of its frames, and its pulse. Agents read these numbers
from the list of tables, a call with a deadline: sampling a table would wait for
ever if the server died.
"""

import contextlib
import dataclasses
import math
import threading
import time
from typing import Any, Callable, Collection, Mapping, NamedTuple

from absl import logging
import numpy as np
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.comms import reverb_calls
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import wording

DONE = 1000  # Thousandths.
_MAX_LEAD = 10
_SILENT_SECS = 60.
_COME_SECS = 600.
# Looks are a fraction of a second apart. After a longer time, this process was
# stopped or the replay away, and others could not be heard.
_MAX_LOOK_SECS = 2.

_UNROLLS, _PROGRESS, _PULSE = 'unrolls-', 'progress-', 'pulse-'
# A run of half a minute is a thousandth further every 30 ms, and may lead by
# ten of these.
_LOOK_SECS = 0.05
# Pulses after which an agent checks whether it sent all of them itself. One or
# two may be its predecessor's, or counted twice.
_PULSES_ALONE = 10
# If the network breaks, inserts on their way may be counted twice.
_MOST_AT_ONCE = 10
_TIMEOUT_SECS = 2
_AWAY_SECS = 5.
_PAUSE_SECS = 0.05


class Report(NamedTuple):
  """Progress and pulse of an agent, as counted by the replay's tables."""
  progress: int  # Thousandths of the agent's frames.
  pulse: int  # Grows as long as the agent lives.


@dataclasses.dataclass
class _Other:
  """Another agent's progress, and the time since its last pulse."""
  progress: int
  pulse: int
  was_seen: bool
  silent_secs: float = 0.

  @property
  def is_silent(self) -> bool:
    """Whether this agent was silent so long that no other waits for it."""
    return self.silent_secs >= (_SILENT_SECS if self.was_seen else _COME_SECS)

  def take(self, report: Report, secs: float) -> None:
    """Processes the newest report, `secs` after the previous one."""
    # A replay that died counts from 0 again.
    self.progress = max(self.progress, report.progress)
    self.silent_secs += secs
    if report.pulse not in (0, self.pulse):
      self.was_seen, self.silent_secs = True, 0.
    self.pulse = report.pulse


class Pace:
  """An agent's view of the others, which decides whether it must wait."""

  def __init__(self, clock: Callable[[], float] = time.monotonic):
    self._clock = clock
    self._others: dict[int, _Other] = {}
    self._last_look = clock()

  def look(self, reports: Mapping[int, Report]) -> None:
    """Processes the newest reports of all other agents, by agent number."""
    now = self._clock()
    secs = min(now - self._last_look, _MAX_LOOK_SECS)
    self._last_look = now
    for number, report in reports.items():
      if number not in self._others:
        self._others[number] = _Other(*report, was_seen=report.pulse > 0)
        continue
      other = self._others[number]
      was_silent = other.is_silent
      other.take(report, secs)
      if other.is_silent and not was_silent and other.progress < DONE:
        logging.warning('Agent %d is silent and not waited for any more, at '
                        '%.1f %% of its frames', number, other.progress / 10)

  def reason_to_wait(self, share: float, next_share: float) -> str | None:
    """Returns a message on the agent to wait for, and why; None to go on.

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


def make_tables(fingerprint: int, num_agents: int,
                absent: Collection[int] = ()) -> list[reverb.Table]:
  """Makes the tables of fingerprint, progress and pulse for a shared replay.

  Agents are numbered from 0 on; nobody waits for `absent` ones.
  """
  names = [f'{_UNROLLS}{fingerprint}', *(
      f'{kind}{agent}' for agent in range(num_agents) if agent not in absent
      for kind in (_PROGRESS, _PULSE))]
  return [reverb_calls.newest_item_table(
      name, tf.TensorSpec([], tf.int8, 'nothing')) for name in names]


def reports(infos: Mapping[str, Any]) -> Mapping[int, Report]:
  """Reads the agents' reports from the server's list of tables."""

  def count(name):
    return infos[name].rate_limiter_info.insert_stats.completed

  agents = [name[len(_PULSE):] for name in infos if name.startswith(_PULSE)]
  return {int(agent): Report(count(_PROGRESS + agent), count(_PULSE + agent))
          for agent in agents}


class Link:
  """An agent's connection to a shared replay, served by a thread.

  `infos` is the newest list of the server's tables, with their sizes.
  """

  def __init__(self, address: str, agent: int, fingerprint: int,
               reports_progress: bool = True, pulse_secs: float = 1.):
    """Connects to the replay's server at 'host:port', and starts the thread.

    `fingerprint` is `data_fingerprint` of the agent's config. Of several
    learners only one reports progress. Raises ConnectionError if the server
    does not answer, ConfigError if it has no place for this agent.
    """
    self.pace = Pace()
    self._address = address
    self._agent = agent
    self._reports_progress = reports_progress
    self._pulse_secs = pulse_secs
    self._progress = 0
    self._client = reverb.Client(address)
    # To validate items it would ask the server without a deadline.
    self._writer = self._client.trajectory_writer(
        num_keep_alive_refs=1, validate_items=False)
    self._is_pending = False
    self._next_pulse = float('-inf')
    self._num_pulses = 0
    self._is_double = False
    self._is_ending = threading.Event()
    self._end = float('inf')
    self._arrived = 0  # Of the progress, as of the last look.
    self._cause = ''
    self.infos = reverb_calls.server_info(self._client)
    self._check(fingerprint)
    self._pulses_before = reports(self.infos)[agent].pulse
    self._note_tables(self.infos)
    self._thread = threading.Thread(target=self._run, daemon=True)
    self._thread.start()

  def _check(self, fingerprint: int) -> None:
    agents = reports(self.infos)
    if not agents:
      raise config_lib.ConfigError(
          f'what listens at {self._address} is no shared replay; start one '
          f'with {wording.command("role")} replay, and give its address')
    if f'{_UNROLLS}{fingerprint}' not in self.infos:
      raise config_lib.ConfigError(
          f'the replay at {self._address} is for unrolls of another config; '
          'agents that share one need the same level, environment, network '
          'and LearnerConfig.unroll_length')
    if self._agent not in agents:
      raise config_lib.ConfigError(
          f'the replay at {self._address} is for the agents '
          f'{", ".join(map(str, sorted(agents)))}, but --agent is '
          f'{self._agent}; give one of these')

  @property
  def problem(self) -> str:
    """Why the replay gives no unrolls; empty if the server answers."""
    if time.monotonic() - self._last_answer < _AWAY_SECS:
      return ''
    because = f' ({self._cause})' if self._cause else ''
    return f'the replay at {self._address} does not answer{because}'

  def check(self) -> None:
    """Raises ConfigError if another live agent uses this agent's number.

    It is known once this agent has sent ten pulses, a second apart. The first
    one continues, unless it came less than some five seconds before.
    """
    if self._is_double:
      raise config_lib.ConfigError(
          f'another agent shares the replay at {self._address} with --agent='
          f'{self._agent}; give each agent a number of its own')

  def report(self, share: float) -> None:
    self._progress = int(share * DONE)

  def close(self, secs: float = 3.) -> None:
    """Sends the last report, if the replay accepts it within `secs`."""
    self._end = time.monotonic() + secs
    self._is_ending.set()
    self._thread.join(secs)

  def _run(self) -> None:
    while not self._is_ending.wait(_LOOK_SECS) or (
        self._reports_progress and time.monotonic() < self._end
        and self._arrived < self._progress):
      try:
        if not self._is_pending or self._flush():
          self._note_tables(
              reverb_calls.server_info(self._client, _TIMEOUT_SECS))
          if self._reports_progress:
            self._send()
      except Exception as error:  # pylint: disable=broad-except
        # The learner must not wait for agents that it cannot hear, and the
        # replay may be back with the next try.
        self._cause = ' '.join(str(error).split())

  def _note_tables(self, infos: Mapping[str, Any]) -> None:
    others = dict(reports(infos))
    if self._agent not in others:
      raise ConnectionError('what listens there now is no replay of this agent')
    own = others.pop(self._agent)
    self._arrived = own.progress
    # Once only: the other, which has looked before, is to go on. An agent that
    # comes back hears nothing of the one that died.
    if self._num_pulses == _PULSES_ALONE and (
        own.pulse - self._pulses_before >= 1.5 * _PULSES_ALONE):
      self._is_double = True
    self.pace.look(others)
    self.infos = infos
    self._last_answer = time.monotonic()

  def _send(self) -> None:
    """Inserts the missing part of this agent's progress, and a pulse."""
    # An agent that went on from an older checkpoint is behind its report, and a
    # replay that died has none.
    number = min(self._progress - self._arrived, _MOST_AT_ONCE)
    names = [f'{_PROGRESS}{self._agent}'] * number
    now = time.monotonic()
    if now >= self._next_pulse:
      self._next_pulse = now + self._pulse_secs
      self._num_pulses += 1
      names.append(f'{_PULSE}{self._agent}')
    if not names:
      return
    self._writer.append((np.int8(0),))
    for name in names:
      self._writer.create_item(
          name, priority=1., trajectory=(self._writer.history[0][-1],))
    self._is_pending = True
    self._flush()

  def _flush(self) -> bool:
    """Waits for pending items, at most 2 s; returns whether all arrived."""
    with contextlib.suppress(reverb.errors.DeadlineExceededError):
      self._writer.flush(timeout_ms=1000 * _TIMEOUT_SECS)
      self._is_pending = False
    return not self._is_pending


def must_pause(link: Link, num_frames: Callable[[], int],
               frames_per_update: int, total_frames: int,
               control: control_lib.LoopControl) -> bool:
  """Reports this agent's progress; waits and returns True if it leads by much.

  All frames are this agent's. Raises ConfigError as `Link.check` does.
  """
  frames = num_frames()
  share, next_share = (min(1., number / total_frames)
                       for number in (frames, frames + frames_per_update))
  link.report(share)
  link.check()
  reason = link.pace.reason_to_wait(share, next_share)
  # Without the replay this agent cannot hear the others.
  if reason is None or link.problem:
    return False
  control.on_pause(reason)
  time.sleep(_PAUSE_SECS)
  return True
