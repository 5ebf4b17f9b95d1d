"""Ports on which a server listens, at any address, are refused."""

import socket

import pytest

from impala_tf.runtime import ports
from tests.fixtures import no_ipv6
from tests.fixtures import programs


def test_several_free_ports_differ(monkeypatch):
  found = iter([5, 7, 7, 8, 6, 9])
  monkeypatch.setattr(ports, 'choose', lambda: next(found))
  assert ports.choose_free(3, besides=[5, 8]) == [7, 6, 9]
  assert ports.choose_free(0) == []


@pytest.mark.parametrize('function', [ports.choose, ports.claim])
@pytest.mark.parametrize('family, address', [
    (socket.AF_INET, '127.0.0.1'), (socket.AF_INET, '0.0.0.0'),
    (socket.AF_INET6, '::')])
def test_taken_port_is_refused(family, address, function):
  with socket.socket(family, socket.SOCK_STREAM) as server:
    server.bind((address, 0))
    server.listen()
    port = server.getsockname()[1]
    with pytest.raises(OSError, match=f'port {port} cannot be used'):
      function(port)


@no_ipv6.NEEDED
def test_without_ipv6_ports_are_those_of_ipv4():
  program = """
import socket
from impala_tf.runtime import ports
assert not socket.has_dualstack_ipv6()
with socket.create_server(('', 0)) as server:
  for choose in ports.choose, ports.claim:
    try:
      choose(server.getsockname()[1])
    except OSError as error:
      print(error)
print(ports.choose(ports.claim()[0]))
"""
  ran = programs.run('tests.fixtures.no_ipv6', '-c', program, check=True)
  *refusals, port = ran.stdout.splitlines()
  assert len(refusals) == 2 and int(port) > 1023
  assert all('cannot be used ([Errno 98]' in line for line in refusals)


def test_claim_ends_with_a_killed_process_or_its_socket():
  program = ('from impala_tf.runtime import ports; '
             'port, claimed = ports.claim(); '
             'print(port, flush=True); input()')
  with programs.running('-c', program, stdin=programs.PIPE) as process:
    port = int(process.stdout.readline())
    with pytest.raises(OSError, match=f'port {port} cannot be used.*choose'):
      ports.claim(port)
    process.kill()
    process.wait()
    for _ in range(2):
      again, claimed = ports.claim(port)
      assert again == port
      claimed.close()


def test_connections_of_a_server_that_is_gone_do_not_keep_its_port():
  port = ports.choose()
  server = socket.create_server(('', port))
  with socket.create_connection(('localhost', port)):
    ours, _ = server.accept()
    server.close()
    ours.close()  # The side that closes first has to remember it for a minute.
  assert ports.choose(port) == port
