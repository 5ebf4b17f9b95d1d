"""Bytes that a crowd of thin actors has sent, counted by the kernel."""

import pytest

from tests.fixtures import programs


@pytest.mark.slow
def test_what_connections_have_sent_is_counted():
  # In a process that has no others.
  program = (
      'import socket\n'
      'from launch.benchmark import crowd\n'
      'with socket.create_server(("127.0.0.1", 0)) as server:\n'
      '  one = socket.create_connection(server.getsockname())\n'
      '  other, _ = server.accept()\n'
      '  before = crowd.tcp_bytes()\n'
      '  one.sendall(b"x" * 12_345)\n'
      '  left = 12_345\n'
      '  while left:\n'
      '    left -= len(other.recv(left))\n'
      '  after = crowd.tcp_bytes()\n'
      'print(after[0] - before[0], after[1] - before[1])\n')
  with programs.running('-c', program) as process:
    out, errors = process.communicate(timeout=programs.DEADLINE_SECS)
  assert out.split() == ['12345', '12345'], errors
