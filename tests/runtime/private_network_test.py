"""Programs get a private network, or the reason why there is none."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading

import pytest

from impala_tf.runtime import private_network
from tests.fixtures import programs

# A program that serves. It prints its port, its network, and whether it reaches
# itself and the test. Servers send their names, as others may have the port.
_PROGRAM = """
import os, sys, time
from impala_tf.runtime import private_network
from tests.runtime import private_network_test
assert private_network.is_settled()
obstacle = private_network.obstacle()
assert 'IMPALA_TF_NOT_PRIVATE' not in os.environ
with open(sys.argv[2], 'w') as file:
  file.write('files are as ever')
with private_network_test.serving('program') as port:
  print(port, os.readlink('/proc/self/ns/net'),
        private_network_test.reaches('program', port),
        private_network_test.reaches('test', int(sys.argv[1])),
        os.getuid(), obstacle or 'private', flush=True)
  time.sleep(600)
"""


@contextlib.contextmanager
def serving(name):
  """Sends a name to all that connect; yields the port."""
  with socket.create_server(('', 0)) as server:

    def serve():
      while True:
        try:
          server.accept()[0].sendall(name.encode())
        except OSError:  # The end.
          return

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)  # Ends the wait for others.


def reaches(name, port):
  """Returns whether a server of this name answers."""
  try:
    with socket.create_connection(('localhost', port), 5) as connection:
      return connection.recv(len(name), socket.MSG_WAITALL) == name.encode()
  except OSError:
    return False


@pytest.fixture(name='start')
def _start(tmp_path, monkeypatch):
  """Runs the program; yields its output and its process id."""
  (tmp_path / 'my_program.py').write_text(_PROGRAM)
  monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(tmp_path), *sys.path]))

  @contextlib.contextmanager
  def start(*arguments):
    with serving('test') as own_port, programs.running(
        *arguments, own_port, tmp_path / 'file',
        env=dict(os.environ)) as process:
      port, *said, obstacle = process.stdout.readline().split(maxsplit=5)
      yield int(port), said, obstacle.strip(), process.pid

  return start


def _is_allowed():
  """Returns whether another program can do the same here."""
  if shutil.which('unshare') is None:
    return False
  flags = ['--map-root-user'] if os.getuid() else []
  return not subprocess.run(['unshare', '--net', *flags, 'true'],
                            capture_output=True).returncode


def _own_network():
  return os.readlink('/proc/self/ns/net')


def test_nobody_else_reaches_it_nor_does_it_reach_others(start, tmp_path):
  with start('-m', 'impala_tf.runtime.private_network', 'my_program') as (
      port, (network, itself, others, uid), obstacle, pid):
    if not _is_allowed():
      pytest.skip(f'this system does not allow it: {obstacle}')
    assert obstacle == 'private'
    assert network != _own_network()
    assert network == os.readlink(f'/proc/{pid}/ns/net')  # The same process.
    assert (itself, others) == ('True', 'False')
    assert not reaches('program', port)
    assert int(uid) == os.getuid()
    assert (tmp_path / 'file').read_text() == 'files are as ever'
    assert (tmp_path / 'file').stat().st_uid == os.getuid()
    if not os.getuid():  # Root keeps its power over files.
      assert os.readlink(f'/proc/{pid}/ns/user') == os.readlink(
          '/proc/self/ns/user')
      assert pathlib.Path(f'/proc/{pid}/uid_map').read_text() == pathlib.Path(
          '/proc/self/uid_map').read_text()


def test_result_of_another_program_does_not_count(monkeypatch):
  monkeypatch.setenv('IMPALA_TF_NOT_PRIVATE', f'{os.getpid() + 1} ')
  assert not private_network.is_settled()


_FORBID = """
import ctypes, errno, fcntl

class Libc:
  def unshare(self, what):
    ctypes.set_errno(errno.EPERM)
    return -1

def refuse(*unused):
  raise OSError(errno.EPERM, 'Operation not permitted')

{}
from impala_tf.runtime import private_network
private_network.main()
"""


@pytest.mark.parametrize('forbidden', [
    'ctypes.CDLL = lambda *unused, **options: Libc()',
    'fcntl.ioctl = refuse'])  # It fails half-way, without a loopback.
def test_program_without_a_private_network_runs_and_knows_why(start, forbidden):
  with start('-c', _FORBID.format(forbidden), 'my_program') as (
      port, (network, itself, others, _), obstacle, _):
    assert 'Operation not permitted' in obstacle
    assert network == _own_network()
    assert (itself, others) == ('True', 'True')
    assert reaches('program', port)


@pytest.mark.parametrize('error, is_explained', [
    ('ConnectionRefusedError: [Errno 111] Connection refused', True),
    ('OSError: [Errno 101] Network is unreachable', True),
    ('gaierror: [Errno -3] Temporary failure in name resolution', True),
    ('KeyError: 1', False)])
def test_server_out_of_reach_is_explained_in_a_private_network_only(
    monkeypatch, error, is_explained):
  for cause, is_private in ('', True), ('unshare: no', False):
    monkeypatch.setenv('IMPALA_TF_NOT_PRIVATE', f'{os.getpid()} {cause}')
    assert private_network.obstacle() == cause
    explained = private_network.explained(error)
    assert explained.startswith(error)
    assert ('--network=open' in explained) == (is_explained and is_private)
