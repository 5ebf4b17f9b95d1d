"""Connection to a Ray cluster, or to Ray on this machine, and its resources."""

import contextlib
import logging
import math
import os
import signal
import sys
import threading
from typing import Any, Iterator, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.runtime import program
from impala_tf.runtime import sizing
from impala_tf.runtime import waiting
from impala_tf.runtime import wording
from impala_tf.storage import files

_CONNECT_SECS = 10.
_INIT_SECS = 120.
# Next to nothing goes through Ray's object store.
_OBJECT_STORE_BYTES = 100 * 2**20


class Resources(NamedTuple):
  """Resources of a node, or needs of a program, as Ray counts them."""
  cpus: float  # May be a fraction.
  gpus: float  # Likewise.

  def __str__(self):
    gpus = f', {self.gpus:g} GPU' if self.gpus else ''
    return f'{self.cpus:g} CPU{gpus}'

  def num_places(self, needs: 'Resources') -> int:
    """Counts programs with these needs (CPUs above 0) that fit on the node."""
    limits = [self.cpus / needs.cpus]
    if needs.gpus:
      limits.append(self.gpus / needs.gpus)
    return max(0, math.floor(min(limits) + 1e-6))  # 0.3 / 0.1 is less than 3.

  def minus(self, needs: 'Resources') -> 'Resources':
    """Returns the resources left beside a program with these needs."""
    return Resources(self.cpus - needs.cpus, self.gpus - needs.gpus)


def _probe(address: str, limit_secs: float) -> None:
  """Raises UserError unless a server listens there; Ray would wait minutes."""
  host, _, port = address.rpartition(':')
  if '/' in host or not host or not port.isdecimal():
    raise config_lib.UserError(
        f"--ray_address must be 'auto' or HOST:PORT, but is {address!r}; give "
        "that of Ray's head node, as `ray start` says it there")
  wait = waiting.Waiting(f'Ray at {address}', limit_secs, lambda line: None)
  try:
    waiting.for_port(address, wait.poll)
  except waiting.PeerMissing as error:
    raise config_lib.UserError(
        f'--ray_address: {error}; start it there (docs/cluster.md), or leave '
        'the flag out to start Ray on this machine') from error


def _find_auto() -> str | None:
  """Returns the address of the cluster that this machine last joined."""
  from ray._private import services  # No public way without connecting.
  try:
    return services.canonicalize_bootstrap_address('auto')
  except ConnectionError as error:
    raise config_lib.UserError(
        '--ray_address=auto: no cluster was started on this machine; start it '
        '(docs/cluster.md), or leave the flag out to start Ray on this machine'
    ) from error


@contextlib.contextmanager
def connected(address: str | None, spare_cpus: float = 0.,
              limit_secs: float = _CONNECT_SECS) -> Iterator[list[Resources]]:
  """Connects to Ray until the context ends; yields the resources of each node.

  `address` is 'auto' or 'HOST:PORT' of a cluster with this machine as a node;
  None for Ray on this machine, which counts `spare_cpus` more than there are,
  and is stopped in the end. Raises UserError if Ray is not installed or cannot
  be reached in time, RunFailed if it fails later. Ends this process if
  something else than Ray listens at the address.
  """
  os.environ.setdefault('RAY_USAGE_STATS_ENABLED', '0')
  try:
    import ray
  except ImportError as error:
    raise config_lib.UserError(
        f"Ray cannot be imported ({error}); it is the extra 'ray', for Python "
        "3.10 or later: pip install 'impala_tf[ray]'") from error
  timer = threading.Timer(_INIT_SECS, _give_up, [address])  # Is started below.
  if address is None:
    options: dict[str, Any] = {
        'address': 'local',  # Not one that has been started before.
        'num_cpus': math.ceil(sizing.num_cores() + spare_cpus),
        'object_store_memory': _OBJECT_STORE_BYTES,
        'include_dashboard': False,
        '_node_ip_address': '127.0.0.1'}
  else:
    options = {'address': _find_auto() if address == 'auto' else address}
    _probe(options['address'], limit_secs)
    # Ray asks again and again if something else listens there.
    timer.start()
  try:
    ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
  except (OSError, RuntimeError, TimeoutError, ValueError) as error:
    where = f'--ray_address={address}' if address else 'starting Ray here'
    raise config_lib.UserError(
        f'{where}: {files.one_line(error, None)}; docs/cluster.md says how a '
        'cluster is started') from error
  except SystemExit as error:  # Of Ray's own handler of SIGTERM.
    raise KeyboardInterrupt(error.code) from error
  finally:
    timer.cancel()
  signal.signal(signal.SIGTERM, _interrupt)  # In place of Ray's.
  try:
    yield [Resources(node['Resources'].get('CPU', 0.),
                     node['Resources'].get('GPU', 0.))
           for node in ray.nodes() if node['Alive']]
  except ray.exceptions.RayError as error:
    raise program.RunFailed(
        f'Ray has failed: {files.one_line(error, None)}; the same command '
        'resumes') from error
  finally:
    ray.shutdown()


def _give_up(address: str) -> None:
  print(f'error: --ray_address: no Ray answers at {address}; give the address '
        'that `ray start` printed', file=sys.stderr, flush=True)
  os._exit(2)


def _interrupt(signum: int, unused_frame: Any) -> None:
  raise KeyboardInterrupt(signum)


def num_places(nodes: Sequence[Resources], needs: Resources) -> int:
  """Counts the programs with these needs that fit on all nodes together."""
  return sum(node.num_places(needs) for node in nodes)


def describe(nodes: Sequence[Resources]) -> str:
  """Describes nodes, as in '3 nodes (2 CPU; 2 CPU; 4 CPU, 1 GPU)'."""
  return (f'{wording.counted(len(nodes), "node")} '
          f'({"; ".join(map(str, nodes))})')
