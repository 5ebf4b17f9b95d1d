"""Host process on a node of a Ray cluster, which starts a program as its child.

Ray's workers do not have this project on their path. So the node gets it by
value from `ray_cluster.program`, and it imports only the standard library and
Ray. Ray restarts hosts; `runtime.restarts` decides about programs.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Any, Mapping, Sequence
import uuid

import ray

# Limit under which Ray sends an answer without its object store.
_MOST_BYTES = 64 * 2**10


def bracketed(ip: str) -> str:
  """Writes an IPv6 address as gRPC needs it in front of a port."""
  return f'[{ip}]' if ':' in ip else ip


class Host:
  """A process on a node of Ray that runs one child program after another.

  A program is killed with this process, before Ray starts another host for it.
  """

  def __init__(self, root: str):
    self._root = root
    self._id = uuid.uuid4().hex
    self._process: subprocess.Popen | None = None
    self._missing = ''
    self._output = tempfile.TemporaryFile()  # Of the program.
    self._told = 0  # Bytes of it that were reported.

  def start(self, directory: str, command: Sequence[str],
            environment: Mapping[str, str],
            needed: Sequence[str]) -> dict[str, Any]:
    """Starts a module with arguments unless a `needed` path is missing.

    Kills its predecessor. If the node does not have the working directory, the
    project's is used. The environment is added to that of Ray's workers.
    Returns as `tell` does.
    """
    if self._process is not None:
      with self._process:  # Waits for its end, and closes its input.
        self.send(signal.SIGKILL)
      self._process = None
    self._output = tempfile.TemporaryFile()
    self._told = 0
    self._missing = next((path for path in (self._root, *needed)
                          if not os.path.exists(path)), '')
    if not self._missing:
      self._process = subprocess.Popen(
          [sys.executable, '-m', 'impala_tf.runtime.bound_to_parent',
           str(os.getpid()), 'SIGKILL', *command],
          cwd=directory if os.path.isdir(directory) else self._root,
          stdin=subprocess.PIPE, stdout=self._output, stderr=self._output,
          start_new_session=True, env={**os.environ, **environment})
    return self.tell()

  def tell(self) -> dict[str, Any]:
    """Returns exit code, new output and other fields of `program.Report`."""
    exit_code = None
    if self._process is not None:
      exit_code = self._process.poll()  # Before its last words are read.
    output = os.pread(self._output.fileno(), _MOST_BYTES, self._told)
    self._told += len(output)
    if len(output) == _MOST_BYTES:
      exit_code = None  # There may be more output first.
    with socket.create_server(('', 0)) as a, socket.create_server(('', 0)) as b:
      free_ports = a.getsockname()[1], b.getsockname()[1]
    return {'host': self._id, 'ip': bracketed(ray.util.get_node_ip_address()),
            'node': ray.get_runtime_context().get_node_id(),
            'free_ports': free_ports, 'exit_code': exit_code,
            'output': output, 'missing': self._missing}

  def send(self, signum: int) -> None:
    if self._process is not None and self._process.poll() is None:
      self._process.send_signal(signum)
