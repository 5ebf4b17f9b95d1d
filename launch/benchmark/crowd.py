"""Thin actors: they play nothing, send what was recorded and fetch parameters.

`python -m launch.benchmark.crowd CONFIG.gin FILE` records; `Crowd` sends. Its
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
from impala_tf import experiment
from impala_tf import types
from impala_tf import weights
from impala_tf.processes import sizing
from impala_tf.processes import tf_threads
from impala_tf.transport import config_table
from launch.processes import child as child_lib
from launch.run import gin_config

# Of several moments of a game: not all are compressed alike.
_NUM_RECORDED = 64
# <linux/tcp.h>: where struct tcp_info has tcpi_bytes_acked and
# tcpi_bytes_received, both 64 bits.
_TCP_BYTES = struct.Struct('120xQQ')

# What an actor counts: unrolls sent; how often it asked for parameters, and
# got new ones; sums of their versions, of when they came (`time.time`) and of
# how long that took; bytes that its connections have sent and received.
COUNTS = ('unrolls', 'asked', 'fetched', 'versions', 'fetch_times',
          'fetch_secs', 'sent_bytes', 'received_bytes')


def record(config: config_lib.Config, path: str) -> None:
  """Writes unrolls, and the shapes of the agent's parameters, for `Crowd`.

  Args:
    config: of a run, `sizing.fit`.
    path: of the file.
  """
  # Makes everything of a step; what sends needs nothing of it.
  from launch.benchmark import parts
  environment = experiment.make_environment(config, 1, seed=0, training=True)
  agent = experiment.make_agent(config, environment)
  environment.close()
  with open(path, 'wb') as file:
    pickle.dump((parts.record_unrolls(config, _NUM_RECORDED),
                 [tuple(v.shape) for v in agent.trainable_variables]), file)


def tcp_bytes() -> Tuple[int, int]:
  """What this process's TCP connections have sent and received.

  As TCP has it: with gRPC's framing, without headers of TCP and below.
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
  """Actors in processes of their own, which end with this one.

  Attributes:
    num_envs: E; an actor fetches for so many unrolls at once.
    parameter_bytes: of the agent, in float32.
    unroll_bytes: of one, not compressed.
  """

  def __init__(self, config: config_lib.Config, path: str, address: str,
               number: int, fetch_every: int,
               of_task: Callable[[types.Unroll, int], types.Unroll] =
               lambda unroll, task: unroll):
    """Starts to send.

    Args:
      config: of the run, as its learner announces it.
      path: of what was recorded.
      address: 'host:port' of the learner's server, which is there.
      number: of actors, at least one.
      fetch_every: unrolls, see `fetch_every`.
      of_task: makes a recorded unroll that of an actor.
    """
    with open(path, 'rb') as file:
      self._unrolls, self._shapes = pickle.load(file)
    self._config, self._address, self._of_task = config, address, of_task
    self.num_envs = sizing.fit(config).actor.num_envs
    self.parameter_bytes = 4 * sum(int(np.prod(s)) for s in self._shapes)
    self.unroll_bytes = sum(
        array.nbytes for array in tf.nest.flatten(self._unrolls[0]))
    # Shared with the actors, of whom each writes to a row of its own.
    numbers = np.frombuffer(mmap.mmap(-1, 8 * (1 + number * len(COUNTS))))
    self._fetch_every = numbers[:1]
    self._counts = numbers[1:].reshape(number, len(COUNTS))
    self.fetch_every(fetch_every)
    reader, self._alive = os.pipe()
    self._pids = [self._fork(task, reader) for task in range(number)]
    os.close(reader)

  def fetch_every(self, num_unrolls: int) -> None:
    """Has each actor ask for parameters once for so many unrolls, on average.

    Args:
      num_unrolls: 0 for never.
    """
    self._fetch_every[0] = num_unrolls

  def counts(self) -> Dict[str, float]:
    """What all of them together have counted so far; see `COUNTS`."""
    return dict(zip(COUNTS, self._counts.sum(axis=0).tolist()))

  def unrolls_sent(self) -> np.ndarray:
    """By each, float64 [number]."""
    return self._counts[:, COUNTS.index('unrolls')].copy()

  def check(self) -> None:
    """Raises RuntimeError where one has ended; it has said why."""
    for task, pid in enumerate(self._pids):
      ended, status = os.waitpid(pid, os.WNOHANG)
      if ended:
        self._pids.remove(pid)
        raise RuntimeError(f'thin actor {task} ended with status {status}; its '
                           'errors are above')

  def close(self) -> None:
    """Ends them."""
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
        config_table.table_name(self._config))
    version = fetcher.wait(lambda cause: None)
    writer = experiment.make_writer(
        self._config, self._address, tf.nest.map_structure(
            lambda array: tf.TensorSpec(array.shape, array.dtype),
            self._unrolls[0]), task)
    counted = dict.fromkeys(COUNTS, 0.)
    # By chance: actors that count would stay in whatever step they are, and
    # many ask at once.
    rng = np.random.default_rng(task)
    for unroll in itertools.cycle(self._unrolls):
      fetch_every = int(self._fetch_every[0])
      if fetch_every and not rng.integers(fetch_every):
        version = self._fetch(fetcher, version, counted)
      writer.write(self._of_task(unroll, task)._replace(
          policy_version=np.int64(version)))
      counted['unrolls'] += 1
      # After each, not after E: with nothing under way, what `fetch_every` says
      # holds at once.
      writer.flush()
      counted['sent_bytes'], counted['received_bytes'] = tcp_bytes()
      # All at once: whoever looks shall not see a half of it.
      self._counts[task] = list(counted.values())

  def _fetch(self, fetcher: weights.Fetcher, version: int,
             counted: Dict[str, float]) -> int:
    """Returns the version of the newest parameters, which it fetches."""
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
