"""A site's web proxy is no way to a server of the same machine."""

import os

import pytest

from impala_tf.runtime import proxies
from tests.fixtures import programs

_NAMES = ('http_proxy', 'https_proxy', 'grpc_proxy', 'no_proxy',
          'no_grpc_proxy')

# Reaches its own server, as every run does.
_CODE = """
from impala_tf.runtime import proxies
proxies.bypass()
import reverb
server = reverb.Server([reverb.Table.queue('a', 1)])
print(*reverb.Client(f'localhost:{server.port}').server_info(timeout=20))
"""


@pytest.fixture(name='variables')
def _variables(monkeypatch):
  """Returns the variables without any that concern proxies."""
  variables = {name: value for name, value in os.environ.items()
               if name not in _NAMES}
  monkeypatch.setattr(os, 'environ', variables)
  return variables


@pytest.mark.slow
@pytest.mark.parametrize('name', _NAMES[:3])
def test_server_of_this_machine_is_reached(name):
  ran = programs.run_code(_CODE, variables={
      name: 'http://127.0.0.1:9'})  # Nothing listens there.
  assert ran.stdout == 'a\n', ran.stderr


@pytest.mark.parametrize('given, expected', [
    ({}, 'localhost,127.0.0.1'),
    ({'no_proxy': '.mine,localhost'}, '.mine,localhost,127.0.0.1'),
    ({'no_grpc_proxy': 'a', 'no_proxy': 'b'}, 'a,localhost,127.0.0.1')])
def test_hosts_that_are_named_already_stay(variables, given, expected):
  variables.update(given)
  for _ in range(2):  # Children do it once more.
    proxies.bypass()
    assert variables['no_grpc_proxy'] == expected
  assert 'grpc_proxy' not in variables


def test_programs_use_the_proxy_that_is_for_grpc_alone(variables):
  variables['https_proxy'] = 'http://web'
  proxies.bypass_everywhere()
  assert variables['grpc_proxy'] == ''
  variables['grpc_proxy'] = 'http://mine'
  proxies.bypass_everywhere()
  assert variables['grpc_proxy'] == 'http://mine'
