"""Many thin actors: they play nothing and send what was recorded.

`python -m tests.faults.crowd record CONFIG.gin FILE`, then
`python -m tests.faults.crowd send CONFIG.gin FILE ADDRESS NUMBER`. Actors are
forked from one process, in which TensorFlow has not started anything yet, and
share its memory. They end with its standard input.
"""

import itertools
import os
import pickle
import sys

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import connection
from impala_tf import experiment
from impala_tf import sizing
from impala_tf import supervisor
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
  for task in range(number):
    if not os.fork():
      supervisor.stop_with_parent(lambda: os._exit(0))
      try:
        _act(config, unrolls, address, task)
      finally:
        os._exit(1)
  sys.stdin.read()


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
