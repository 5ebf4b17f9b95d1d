"""A crowd of thin actors whose unrolls tell whose they are.

`python -m tests.faults.crowd CONFIG.gin FILE ADDRESS NUMBER` sends what
`launch.benchmark.crowd` has recorded, until its standard input ends.
"""

import sys

import numpy as np

from impala_tf import waiting
from launch import gin_config
from launch.benchmark import crowd

_WAIT_SECS = 600.


def main():
  config, path, address, number = sys.argv[1:]
  waiting.for_port(address, waiting.Waiting(
      f'the learner at {address}', _WAIT_SECS, print).poll)
  everyone = crowd.Crowd(
      gin_config.load(config), path, address, int(number), fetch_every=1,
      of_task=lambda unroll, task: unroll._replace(level_index=np.int32(task)))
  sys.stdin.read()
  everyone.close()


if __name__ == '__main__':
  main()
