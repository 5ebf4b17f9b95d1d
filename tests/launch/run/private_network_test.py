"""Tests of a program in a network of its own, or told why not."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import pytest

from launch.run import private_network
from tests.fixtures import programs

# A program that serves, and says where, in which network, and whether it
# reaches itself and the test.
_PROGRAM = """
import os, socket, sys, time
from launch.run import private_network
assert private_network.is_settled()
obstacle = private_network.obstacle()
assert 'IMPALA_TF_NOT_PRIVATE' not in os.environ
server = socket.create_server(('', 0))
port = server.getsockname()[1]
def reaches(port):
  try:
    socket.create_connection(('localhost', port), 5).close()
    return True
  except OSError:
    return False
with open(sys.argv[2], 'w') as file:
  file.write('files are as ever')
print(port, os.readlink('/proc/self/ns/net'), reaches(port),
      reaches(int(sys.argv[1])), os.getuid(), obstacle or 'private', flush=True)
time.sleep(600)
"""


@pytest.fixture(name='start')
def _start(tmp_path, monkeypatch):
  """Runs the program; yields what it says and its process id."""
  (tmp_path / 'my_program.py').write_text(_PROGRAM)
  monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(tmp_path), *sys.path]))

  @contextlib.contextmanager
  def start(*arguments):
    with socket.create_server(('', 0)) as server, programs.running(
        *arguments, server.getsockname()[1], tmp_path / 'file',
        env=dict(os.environ)) as process:
      port, *said, obstacle = process.stdout.readline().split(maxsplit=5)
      yield int(port), said, obstacle.strip(), process.pid

  return start


def _can_reach(port):
  try:
    socket.create_connection(('localhost', port), 5).close()
    return True
  except OSError:
    return False


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
  with start('-m', 'launch.run.private_network', 'my_program') as (
      port, (network, itself, others, uid), obstacle, pid):
    if not _is_allowed():
      pytest.skip(f'this system does not allow it: {obstacle}')
    assert obstacle == 'private'
    assert network != _own_network()
    assert network == os.readlink(f'/proc/{pid}/ns/net')  # The same process.
    assert (itself, others) == ('True', 'False')
    assert not _can_reach(port)
    assert int(uid) == os.getuid()
    assert (tmp_path / 'file').read_text() == 'files are as ever'
    assert (tmp_path / 'file').stat().st_uid == os.getuid()


def test_what_another_program_was_told_does_not_count(monkeypatch):
  monkeypatch.setenv('IMPALA_TF_NOT_PRIVATE', f'{os.getpid() + 1} ')
  assert not private_network.is_settled()
  monkeypatch.setenv('IMPALA_TF_NOT_PRIVATE', f'{os.getpid()} ')
  assert private_network.is_settled() and private_network.obstacle() == ''


# Systems that do not allow it.
_FORBID = """
import errno, os, sys
from launch.run import private_network
def _unshare(what):
  raise OSError(errno.EPERM, 'unshare: Operation not permitted')
private_network._unshare = _unshare
del sys.argv[0]
sys.argv.insert(0, '')
private_network.main()
"""


def test_where_it_is_not_allowed_the_program_is_told_and_runs_as_ever(start):
  with start('-c', _FORBID, 'my_program') as (
      port, (network, itself, others, _), obstacle, _):
    assert 'unshare: Operation not permitted' in obstacle
    assert network == _own_network()
    assert (itself, others) == ('True', 'True')
    assert _can_reach(port)


def test_failure_half_way_leaves_no_trace(start):
  # A network without its loopback, as where only root may start that.
  program = _FORBID.replace(
      'private_network._unshare = _unshare',
      'private_network.fcntl.ioctl = _unshare').replace(
          '(what)', '(*unused)')
  with start('-c', program, 'my_program') as (
      port, (network, *_), obstacle, _):
    assert 'not permitted' in obstacle
    assert network == _own_network()
    assert _can_reach(port)


def test_root_keeps_its_power_over_files(start):
  if os.getuid():
    pytest.skip('this is not root')
  with start('-m', 'launch.run.private_network', 'my_program'
             ) as (_, _, _, pid):
    assert os.readlink(f'/proc/{pid}/ns/user') == os.readlink(
        '/proc/self/ns/user')
    assert pathlib.Path(f'/proc/{pid}/uid_map').read_text() == pathlib.Path(
        '/proc/self/uid_map').read_text()
