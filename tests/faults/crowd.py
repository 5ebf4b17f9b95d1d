"""Many thin actors: they play nothing and send what was recorded.

`python -m tests.faults.crowd record CONFIG.gin FILE`, then
`python -m tests.faults.crowd send CONFIG.gin FILE ADDRESS NUMBER`. Actors are
forked from one process, in which TensorFlow has not started anything yet, and
share its memory. They end with its standard input.
"""

import itertools
import os
import pickle
import signal
import sys

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import connection
from impala_tf import experiment
from impala_tf import sizing
from launch import gin_config
from launch.benchmark import parts

_NUM_RECORDED = 8


def _record(config, path):
  with open(path, 'wb') as file:
    pickle.dump(parts.record_unrolls(config, _NUM_RECORDED), file)


def _act(config, unrolls, address, task):
  """Fetches parameters and sends an unroll that says whose it is, in turns."""
  spec = tf.nest.map_structure(
      lambda array: tf.TensorSpec(array.shape, array.dtype), unrolls[0])
  client = reverb.Client(address)
  writer = experiment.make_writer(config, address, spec, task)
  for unroll in itertools.cycle(unrolls):
    connection.server_info(client)
    next(iter(client.sample('weights', emit_timesteps=False)))
    writer.write(unroll._replace(level_index=np.int32(task)))
    writer.flush()


def _send(config, path, address, number):
  with open(path, 'rb') as file:
    unrolls = pickle.load(file)
  pids = []
  for task in range(number):
    pid = os.fork()
    if not pid:
      try:
        _act(config, unrolls, address, task)
      finally:
        os._exit(1)
    pids.append(pid)
  sys.stdin.read()
  for pid in pids:
    os.kill(pid, signal.SIGKILL)


def main():
  what, config, path, *where = sys.argv[1:]
  config = sizing.fit(gin_config.load(config))
  if what == 'record':
    _record(config, path)
  else:
    address, number = where
    _send(config, path, address, int(number))


if __name__ == '__main__':
  main()
