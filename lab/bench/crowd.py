"""Thin actors: they send recorded unrolls and fetch parameters, but never play.

`python -m lab.bench.crowd CONFIG.gin FILE` records; `Crowd` sends. Its
actors are forked from one process, in which TensorFlow must not have computed
anything yet, and share its memory, so that there can be many.
"""

import itertools
import mmap
import os
import pathlib
import pickle
import signal
import socket
import struct
import sys
import time
import traceback
from typing import Callable, Dict, Tuple

import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.comms import config_table
from impala_tf.core import experiment
from impala_tf.core import weights
from impala_tf.runs import gin_config
from impala_tf.runtime import child as child_lib
from impala_tf.runtime import sizing
from impala_tf.runtime import tf_threads

# Unrolls from several moments of a game, as not all compress alike.
_NUM_RECORDED = 64
# <linux/tcp.h>: where struct tcp_info has tcpi_bytes_acked and
# tcpi_bytes_received, both 64 bits.
_TCP_BYTES = struct.Struct('120xQQ')

# Counters of an actor: unrolls sent; how often it asked for parameters, and got
# new ones; sums of their versions, of their arrival times (`time.time`) and of
# the seconds that fetching took; bytes that its connections sent and received.
COUNTS = ('unrolls', 'asked', 'fetched', 'versions', 'fetch_times',
          'fetch_secs', 'sent_bytes', 'received_bytes')


def record(config: config_lib.Config, path: str) -> None:
  """Writes unrolls, and the shapes of the agent's parameters, for `Crowd`.

  Args:
    config: config of a run, as `sizing.fit` returns it.
    path: path of the file.
  """
  # Imports all that a step needs; sending needs nothing of it.
  from lab.bench import parts
  environment = experiment.make_environment(config, 1, seed=0, training=True)
  agent = experiment.make_agent(config, environment)
  environment.close()
  with open(path, 'wb') as file:
    unrolls = [packed.unroll
               for packed in parts.record_unrolls(config, _NUM_RECORDED)]
    pickle.dump(
        (unrolls, [tuple(v.shape) for v in agent.published_variables]), file)


def tcp_bytes() -> Tuple[int, int]:
  """Returns the bytes that this process's TCP connections sent and received.

  They include gRPC's framing, but no headers of TCP and below.
  """
  totals = np.zeros(2, np.int64)
  for path in pathlib.Path('/proc/self/fd').iterdir():
    try:
      if not os.readlink(path).startswith('socket:'):
        continue
      with socket.socket(fileno=os.dup(int(path.name))) as connection:
        if (connection.family in (socket.AF_INET, socket.AF_INET6) and
            connection.type == socket.SOCK_STREAM):
          totals += _TCP_BYTES.unpack(connection.getsockopt(
              socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_BYTES.size))
    except OSError:  # It is closed by now, or listens.
      pass
  return int(totals[0]), int(totals[1])


class Crowd:
  """Thin actors in processes of their own, which end with this one.

  Attributes:
    num_envs: number E of environments of a real actor, which fetches parameters
      once for E unrolls.
    parameter_bytes: size of the agent's parameters in float32.
    unroll_bytes: size of an unroll before compression.
  """

  def __init__(self, config: config_lib.Config, path: str, address: str,
               number: int, fetch_every: int,
               of_task: Callable[[types.Unroll, int], types.Unroll] =
               lambda unroll, task: unroll):
    """Starts to send.

    Args:
      config: config of the run, as its learner announces it.
      path: path of the recording.
      address: 'host:port' of the learner's server, which listens already.
      number: number of actors, at least one.
      fetch_every: mean number of unrolls between two fetches of an actor, see
        the method `fetch_every`.
      of_task: function of a recorded unroll and an actor's number to the unroll
        that this actor sends.
    """
    with open(path, 'rb') as file:
      self._unrolls, self._shapes = pickle.load(file)
    self._config, self._address, self._of_task = config, address, of_task
    self.num_envs = sizing.fit(config).actor.num_envs
    self.parameter_bytes = 4 * sum(int(np.prod(s)) for s in self._shapes)
    self.unroll_bytes = sum(
        array.nbytes for array in tf.nest.flatten(self._unrolls[0]))
    # Shared memory, in which each actor writes to a row of its own.
    numbers = np.frombuffer(mmap.mmap(-1, 8 * (1 + number * len(COUNTS))))
    self._fetch_every = numbers[:1]
    self._counts = numbers[1:].reshape(number, len(COUNTS))
    self.fetch_every(fetch_every)
    reader, self._alive = os.pipe()
    self._pids = [self._fork(task, reader) for task in range(number)]
    os.close(reader)

  def fetch_every(self, num_unrolls: int) -> None:
    """Sets how often each actor asks for parameters.

    Args:
      num_unrolls: mean number of unrolls between two fetches; 0 for never.
    """
    self._fetch_every[0] = num_unrolls

  def counts(self) -> Dict[str, float]:
    """Returns sums of all actors' counters so far, see `COUNTS`."""
    return dict(zip(COUNTS, self._counts.sum(axis=0).tolist()))

  def unrolls_sent(self) -> np.ndarray:
    """Returns how many unrolls each actor has sent, float64 [number]."""
    return self._counts[:, COUNTS.index('unrolls')].copy()

  def check(self) -> None:
    """Raises RuntimeError where an actor has ended, which has said why."""
    for task, pid in enumerate(self._pids):
      ended, status = os.waitpid(pid, os.WNOHANG)
      if ended:
        self._pids.remove(pid)
        raise RuntimeError(f'thin actor {task} ended with status {status}; its '
                           'errors are above')

  def close(self) -> None:
    """Ends all actors."""
    for pid in self._pids:
      os.kill(pid, signal.SIGKILL)
      os.waitpid(pid, 0)
    self._pids = []
    os.close(self._alive)

  def _fork(self, task: int, reader: int) -> int:
    pid = os.fork()
    if pid:
      return pid
    try:
      # Ctrl-C is for the process that ends them.
      signal.signal(signal.SIGINT, signal.SIG_IGN)
      os.close(self._alive)
      os.dup2(reader, 0)
      child_lib.stop_with_parent(lambda: os._exit(0))
      self._act(task)
    except BaseException:
      traceback.print_exc()
    finally:
      sys.stderr.flush()
      os._exit(1)

  def _act(self, task: int) -> None:
    """Sends unrolls of one actor until the process ends."""
    tf_threads.set_threads(1)
    fetcher = weights.Fetcher(
        self._address, [tf.Variable(tf.zeros(shape)) for shape in self._shapes],
        config_table.table_name(self._config), may_share=False)
    version = fetcher.wait(lambda cause: None)
    writer = experiment.make_writer(
        self._config, self._address, tf.nest.map_structure(
            lambda array: tf.TensorSpec(array.shape, array.dtype),
            self._unrolls[0]), task)
    counted = dict.fromkeys(COUNTS, 0.)
    # Fetches are random: actors that count unrolls would stay in step with each
    # other, and many would ask at once.
    rng = np.random.default_rng(task)
    for unroll in itertools.cycle(self._unrolls):
      fetch_every = int(self._fetch_every[0])
      if fetch_every and not rng.integers(fetch_every):
        version = self._fetch(fetcher, version, counted)
      writer.write(self._of_task(unroll, task)._replace(
          policy_version=np.int64(version)))
      counted['unrolls'] += 1
      # After each unroll, not after E: with nothing under way, a new value of
      # `fetch_every` takes effect at once.
      writer.flush()
      counted['sent_bytes'], counted['received_bytes'] = tcp_bytes()
      # All at once, so that readers never see half of it.
      self._counts[task] = list(counted.values())

  def _fetch(self, fetcher: weights.Fetcher, version: int,
             counted: Dict[str, float]) -> int:
    """Fetches the newest parameters; returns their version."""
    start = time.time()
    newest = fetcher.fetch()
    counted['asked'] += 1
    if newest != version:
      counted['fetched'] += 1
      counted['versions'] += newest
      counted['fetch_times'] += time.time()
      counted['fetch_secs'] += time.time() - start
    return newest


def main():
  config_path, path = sys.argv[1:]
  record(sizing.fit(gin_config.load(config_path)), path)


if __name__ == '__main__':
  main()
