"""Waits name the peer, and end."""

import socket

import pytest

from impala_tf.runtime import ports
from impala_tf.runtime import waiting
from tests.fixtures import clocks


class _Clock(clocks.Clock):

  def poll(self, wait, secs, step=0.5, cause=''):
    for _ in range(int(secs / step)):
      self.secs += step
      wait.poll(cause)


def test_it_says_for_whom_at_once_then_every_half_minute_and_gives_up():
  clock = _Clock()
  lines = []
  wait = waiting.Waiting('the learner at x:1', 100., lines.append, clock)
  wait.poll('nobody is there')
  assert lines == [
      'waiting for the learner at x:1 (0 of 100 s): nobody is there']
  clock.poll(wait, 99.5)
  assert lines[1:] == [
      f'waiting for the learner at x:1 ({n} of 100 s)' for n in (30, 60, 90)]
  with pytest.raises(waiting.PeerMissing) as error:
    clock.poll(wait, 0.5, cause='no way')
  assert str(error.value) == (
      'waited 100 s for the learner at x:1, in vain: no way')


def test_next_wait_has_its_own_time_and_begins_in_silence():
  clock = _Clock()
  lines = []
  wait = waiting.Waiting('it', 50., lines.append, clock)
  clock.poll(wait, 40)
  clock.secs += 1.
  assert wait.restart() == 41
  del lines[:]
  clock.poll(wait, 29)
  assert not lines
  clock.poll(wait, 20.5)
  assert lines == ['waiting for it (30 of 50 s)']
  with pytest.raises(waiting.PeerMissing):
    clock.poll(wait, 0.5)


def test_who_was_stopped_meanwhile_has_not_waited():
  clock = _Clock()
  wait = waiting.Waiting('it', 50., lambda line: None, clock)
  clock.secs += 10_000.
  wait.poll()
  with pytest.raises(waiting.PeerMissing):
    clock.poll(wait, 30.)


@pytest.mark.parametrize('host, words', [
    ('localhost', 'refused'), ('[::1]', 'refused'),
    ('no.such.host.invalid', 'Name or service not known|resolution')])
def test_poll_gets_the_cause(host, words):

  def poll(cause):
    raise TimeoutError(cause)

  with pytest.raises(TimeoutError, match=words):
    waiting.for_port(f'{host}:{ports.choose()}', poll)


def test_port_is_waited_for():
  port = ports.choose()
  servers = []

  def poll(cause):
    assert 'refused' in cause
    servers.append(socket.create_server(('localhost', port)))

  waiting.for_port(f'localhost:{port}', poll)
  assert len(servers) == 1
  servers[0].close()
