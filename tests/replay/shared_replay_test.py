"""Agents' links to a real server of a shared replay, which may die."""

import pytest
import reverb

from impala_tf import config as config_lib
from impala_tf.core import queue as queue_lib
from impala_tf.replay import shared_replay
from impala_tf.runtime import ports
from tests.fixtures import programs
from tests.fixtures import unrolls

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
    (0, 7, 'is for unrolls of another config; .* need the same level.*; for '
     'runs from before .* give .*EnvironmentConfig.converted = False'),
    (2, _FINGERPRINT, 'is for the agents 0, 1, but --agent is 2'),
    (3, _FINGERPRINT, 'is for the agents 0, 1, but --agent is 3')])
def test_agent_that_has_no_place_is_refused(agent, fingerprint, words):
  server = _serve()
  with pytest.raises(config_lib.ConfigError, match=words):
    shared_replay.Link(f'localhost:{server.port}', agent, fingerprint)
  server.stop()


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
  server.stop()


def test_server_that_is_no_shared_replay_is_refused():
  server = queue_lib.make_server([queue_lib.make_queue(unrolls.spec(), 2)],
                                 None)
  with pytest.raises(config_lib.ConfigError, match='is no shared replay'):
    shared_replay.Link(f'localhost:{server.port}', 0, _FINGERPRINT)
  server.stop()
