"""Agents that share a replay keep pace, and none waits without an end.

Their links are to a real server, which may die.
"""

import functools
import types as python_types

import pytest
import reverb

from impala_tf import config as config_lib
from impala_tf.core import queue as queue_lib
from impala_tf.replay import shared_replay
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import ports
from tests.fixtures import clocks
from tests.fixtures import programs
from tests.fixtures import unrolls


class _Agents:
  """Reports of other agents, which one agent looks at twice a second."""

  def __init__(self):
    self.clock = clocks.Clock()
    self.pace = shared_replay.Pace(self.clock)
    self.reports = dict.fromkeys((0, 1), shared_replay.Report(0, 0))
    self.pace.look(self.reports)

  def look(self, secs=0.5, **progress):
    """Looks after some time; agents named `a0`, `a1` live and are so far."""
    self.clock.secs += secs
    for name, value in progress.items():
      number = int(name[1:])
      self.reports[number] = shared_replay.Report(
          value, self.reports[number].pulse + 1)
    self.pace.look(self.reports)

  def reason(self, permille, next_permille=None):
    return self.pace.reason_to_wait(
        permille / 1000, (next_permille or permille + 1) / 1000)


def test_nobody_leads_the_slowest_by_more_than_a_hundredth():
  agents = _Agents()
  agents.look(a0=500, a1=300)
  assert agents.reason(309) is None  # It will be at 310.
  reason = agents.reason(309.6, 310.6)
  assert reason == ('agent 1 has 30.0 % of its frames, this one 31.0 %, '
                    'and none may lead by more than 1 %')
  agents.look(a1=301)
  assert agents.reason(309.6, 310.6) is None


@pytest.mark.parametrize('update', [1, 9, 10, 11, 40, 999])
def test_somebody_can_always_go_on(update):
  """Whatever an update counts, three agents come to their ends in turn."""
  frames = [0., 0., 0.]
  rounds = 0
  while min(frames) < 1000:
    rounds += 1
    assert rounds < 5000
    moved = False
    for i in range(3):
      if frames[i] >= 1000:
        continue
      others = [int(f) for j, f in enumerate(frames) if j != i]
      agents = _Agents()
      agents.look(a0=others[0], a1=others[1])
      if agents.reason(frames[i], frames[i] + update) is None:
        moved = True
        frames[i] += update
        assert frames[i] - min(min(f, 1000) for f in frames) <= max(10, update)
    assert moved


def test_dead_agent_is_left_out_after_a_minute_and_waited_for_once_back(
    caplog):
  agents = _Agents()
  agents.look(a0=100, a1=100)
  for _ in range(119):
    agents.look(a1=200)
  assert 'agent 0 ' in agents.reason(200) and not caplog.messages
  agents.look(a1=200)
  assert agents.reason(200) is None
  assert caplog.messages == [
      'Agent 0 is silent and not waited for any more, at 10.0 % of its frames']
  agents.look(a0=100, a1=200)
  assert 'agent 0 ' in agents.reason(200)


def test_agent_that_has_never_come_is_waited_for_longer():
  agents = _Agents()
  for _ in range(1199):
    agents.look(a1=50)
  assert 'agent 0 ' in agents.reason(50)
  agents.look(a1=50)
  assert agents.reason(50) is None


def test_replay_that_starts_from_nothing_makes_nobody_slower():
  agents = _Agents()
  agents.look(a0=500, a1=1000)
  for number in (0, 1):
    agents.reports[number] = shared_replay.Report(0, 0)
  agents.look(secs=300.)  # It was away for five minutes.
  assert agents.reason(505) is None  # That was no silence of agent 0,
  assert 'agent 0 ' in agents.reason(520)
  for _ in range(120):
    agents.look()
  assert agents.reason(520) is None  # but this is.


class _Process:
  """A process that pauses, and notes the causes."""

  def __init__(self, pace, problem='', check=lambda: None):
    self.pauses, self.reported = [], []
    link = python_types.SimpleNamespace(
        pace=pace, problem=problem, report=self.reported.append, check=check)
    self.must_pause = functools.partial(
        shared_replay.must_pause, link, lambda: 200, 40, 1000,
        control_lib.LoopControl(on_pause=self.pauses.append))


def test_learner_pauses_until_the_slowest_has_come_nearer():
  agents = _Agents()
  agents.look(a0=195, a1=500)
  process = _Process(agents.pace)
  assert process.must_pause()
  assert process.reported == [0.2]
  cause, = process.pauses
  assert 'agent 0 has 19.5 %' in cause
  agents.look(a0=240)
  assert not process.must_pause() and len(process.pauses) == 1


def test_pause_ends_if_the_link_complains():
  agents = _Agents()
  agents.look(a0=0, a1=0)

  def check():
    raise config_lib.ConfigError('another agent')

  with pytest.raises(config_lib.ConfigError, match='another agent'):
    _Process(agents.pace, check=check).must_pause()


def test_nobody_is_waited_for_while_the_replay_is_away():
  agents = _Agents()
  agents.look(a0=0, a1=0)
  process = _Process(agents.pace, problem='the replay is away')
  assert not process.must_pause() and not process.pauses


# Links.

_FINGERPRINT = -5


def _serve(port=None):
  """Starts a server for three agents, the last of which will not come."""
  return queue_lib.make_server([
      queue_lib.make_replay(unrolls.spec(), 10, memory_bytes=1 << 30),
      *shared_replay.make_tables(_FINGERPRINT, 3, absent=[2])], port)


def _reports(address):
  return shared_replay.reports(reverb.Client(address).server_info())


def _wait_for_progress(address, *progress):
  programs.wait_until(
      lambda: [r.progress for _, r in sorted(_reports(address).items())]
      == list(progress), f'progress of {progress}')


@pytest.mark.slow
def test_agents_hear_of_each_other_even_if_the_replay_begins_anew():
  port = ports.choose()
  address = f'localhost:{port}'
  server = _serve(port)
  links = [shared_replay.Link(address, i, _FINGERPRINT) for i in range(2)]
  links[0].report(0.25)
  links[1].report(0.125)
  _wait_for_progress(address, 250, 125)
  programs.wait_until(
      lambda: 'agent 1 has 12.5 %' in (links[0].pace.reason_to_wait(0.25, 0.26)
                                       or ''), 'word of agent 1')
  programs.wait_until(
      lambda: links[1].pace.reason_to_wait(0.125, 0.126) is None,
      'word of agent 0')
  server.stop()
  programs.wait_until(
      lambda: links[0].problem.startswith(
          f'the replay at {address} does not answer'), 'notice of its loss')
  del server  # It would keep the port.
  server = _serve(port)
  _wait_for_progress(address, 250, 125)
  programs.wait_until(lambda: not links[0].problem, 'notice of its return')
  # An agent that went on from an older checkpoint makes nobody slower.
  links[0].report(0.2)
  links[1].report(0.2)
  links[1].close(programs.DEADLINE_SECS)  # A slow machine needs longer.
  assert _reports(address)[1].progress == 200  # It does not end before.
  pulse = _reports(address)[0].pulse
  programs.wait_until(lambda: _reports(address)[0].pulse > pulse, 'a pulse')
  assert links[0].infos[queue_lib.REPLAY].max_size == 10
  links[0].close()
  server.stop()


@pytest.mark.parametrize('agent, fingerprint, words', [
    (0, 7, 'is for unrolls of another config; .* need the same level'),
    (2, _FINGERPRINT, 'is for the agents 0, 1, but --agent is 2'),
    (3, _FINGERPRINT, 'is for the agents 0, 1, but --agent is 3')])
def test_agent_that_has_no_place_is_refused(agent, fingerprint, words):
  server = _serve()
  with pytest.raises(config_lib.ConfigError, match=words):
    shared_replay.Link(f'localhost:{server.port}', agent, fingerprint)


def test_second_agent_of_a_number_is_refused_unless_the_first_is_dead():
  server = _serve()
  address = f'localhost:{server.port}'

  def join(agent, num_senders=1):
    """Returns a link after it has checked whether it is alone."""
    before = _reports(address)[agent].pulse
    link = shared_replay.Link(address, agent, _FINGERPRINT, pulse_secs=0.05)
    programs.wait_until(
        lambda: _reports(address)[agent].pulse >= before + 15 * num_senders,
        'pulses')
    return link

  first, other, second = join(0), join(1), join(0, num_senders=3)
  with pytest.raises(config_lib.ConfigError, match='give each agent a number'):
    second.check()
  second.close()
  first.check()
  other.check()
  first.close()
  third = join(0)
  third.check()
  for link in (other, third):
    link.close()


def test_server_that_is_no_shared_replay_is_refused():
  server = queue_lib.make_server([queue_lib.make_queue(unrolls.spec(), 2)],
                                 None)
  with pytest.raises(config_lib.ConfigError, match='is no shared replay'):
    shared_replay.Link(f'localhost:{server.port}', 0, _FINGERPRINT)
