"""Tests of the room on a cluster, and of a Ray that is not there."""

import signal
import subprocess
import sys

import pytest

from impala_tf import config as config_lib
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.runtime import ports
from impala_tf.runtime import program
from tests.fixtures import programs

ray = pytest.importorskip('ray', reason="needs the extra 'ray'")

Resources = ray_connection.Resources


@pytest.mark.parametrize('node, needs, expected', [
    ((4, 0), (1, 0), 4), ((4, 0), (3, 0), 1), ((4, 0), (5, 0), 0),
    ((0.3, 0), (0.1, 0), 3), ((8, 1), (1, 0.5), 2), ((8, 0), (1, 1), 0),
    ((-1, 0), (1, 0), 0), ((2, 8), (1, 1), 2)])
def test_places_are_counted_by_what_is_scarcest(node, needs, expected):
  assert Resources(*node).num_places(Resources(*needs)) == expected


def test_nodes_are_not_added_up():
  nodes = [Resources(3, 0), Resources(3, 1)]
  assert ray_connection.num_places(nodes, Resources(2, 0)) == 2
  assert ray_connection.num_places(nodes, Resources(1, 1)) == 1
  assert Resources(3, 1).minus(Resources(2, 1)) == Resources(1, 0)


def _refusal(address):
  with pytest.raises(config_lib.UserError) as error:
    with ray_connection.connected(address, limit_secs=0.5):
      pass
  line, = str(error.value).splitlines()
  return line


@pytest.mark.parametrize(
    'address', ['head', 'ray://head:10001', ':6379', 'x:y'])
def test_bad_address_is_refused(address):
  assert f"must be 'auto' or HOST:PORT, but is '{address}'" in _refusal(address)


def test_cluster_that_is_not_there_is_waited_for_and_named():
  line = _refusal(f'localhost:{ports.choose()}')
  assert 'waited 0.5 s for Ray at localhost' in line and 'refused' in line


@pytest.mark.slow
def test_port_of_something_else_ends_the_wait():
  with ports.bound(0) as server:
    server.listen()
    address = f'127.0.0.1:{server.getsockname()[1]}'
    ended = subprocess.run(
        [sys.executable, '-c', 'from impala_tf.ray_cluster import connection\n'
         'connection._INIT_SECS = 3.\n'
         f'connection.connected({address!r}).__enter__()'],
        capture_output=True, text=True, timeout=programs.DEADLINE_SECS)
  assert ended.returncode == 2
  assert f'error: --ray_address: no Ray answers at {address};' in ended.stderr


@pytest.fixture(name='ray_dir')
def _ray_dir(monkeypatch, tmp_path):
  """Returns the directory of Ray's notes, without clusters of other tests."""
  from ray._private import services
  monkeypatch.setattr(services, 'find_gcs_addresses', set)
  monkeypatch.delenv('RAY_ADDRESS', raising=False)
  monkeypatch.setenv('RAY_TMPDIR', str(tmp_path))
  return tmp_path / 'ray'


@pytest.mark.usefixtures('ray_dir')
def test_auto_without_a_cluster_is_refused():
  assert '--ray_address=auto: no cluster was started on' in _refusal('auto')


def test_auto_of_a_cluster_that_has_died_is_refused(ray_dir):
  port = ports.choose()
  ray_dir.mkdir()
  (ray_dir / 'ray_current_cluster').write_text(f'127.0.0.1:{port}')
  assert f':{port}, in vain' in _refusal('auto')


def test_later_failure_of_ray_ends_the_run(monkeypatch):
  for name in ('init', 'shutdown'):
    monkeypatch.setattr(ray, name, lambda **unused: None)
  monkeypatch.setattr(ray, 'nodes', lambda: [])
  with pytest.raises(program.RunFailed, match='Ray has failed: .*gone; the'):
    with ray_connection.connected(None):
      with pytest.raises(KeyboardInterrupt, match='15'):
        signal.raise_signal(signal.SIGTERM)
      raise ray.exceptions.RaySystemError('gone')
  monkeypatch.setattr(ray, 'init', lambda **unused: sys.exit(15))
  with pytest.raises(KeyboardInterrupt, match='15'):
    ray_connection.connected(None).__enter__()


def test_missing_ray_is_an_extra(monkeypatch):
  monkeypatch.setitem(sys.modules, 'ray', None)
  assert "pip install 'impala_tf[ray]'" in _refusal('auto')
