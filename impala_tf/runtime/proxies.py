"""Keeps Reverb and TensorFlow, which use gRPC, from a site's web proxy.

gRPC would send even what is for this machine through the proxy that
`https_proxy` or `http_proxy` names, and wait for ever. Standard library only.
"""

import os

_HERE = ('localhost', '127.0.0.1')


def bypass() -> None:
  """Makes gRPC connect to this machine without a proxy, from now on."""
  # gRPC ignores the second variable if the first is there.
  names = os.environ.get('no_grpc_proxy', os.environ.get('no_proxy', ''))
  hosts = [host for host in names.split(',') if host and host not in _HERE]
  os.environ['no_grpc_proxy'] = ','.join([*hosts, *_HERE])


def bypass_everywhere() -> None:
  """Makes gRPC ignore all proxies but the one that `grpc_proxy` names."""
  os.environ.setdefault('grpc_proxy', '')
  bypass()
