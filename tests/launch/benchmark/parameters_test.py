"""The way of parameters, with the processes that the benchmark starts."""

import time

import pytest

from impala_tf.processes import ports
from launch.benchmark import parameters
from launch.benchmark import worker

_CONFIG = '''
include 'configs/catch.gin'
config.LearnerConfig.batch_size = 8
config.ActorConfig.num_actors = 2
config.ActorConfig.num_envs = 12
'''


def test_ticks_that_come_late_are_made_up_for():
  start = time.monotonic()
  number = 0
  for _ in parameters.ticks(100, 0.4):
    if number == 0:
      time.sleep(0.2)
    number += 1
  assert number == pytest.approx(40, abs=5)
  assert time.monotonic() - start < 0.6


def test_both_ends_cost_something_for_the_same_steps(tmp_path):
  path = tmp_path / 'config.gin'
  path.write_text(
      f'from __gin__ import dynamic_registration\n'
      f'from impala_tf import config\n{_CONFIG}')
  port = str(ports.choose(None))
  ends = [worker.Worker('launch.benchmark.parameters', [role, str(path), port])
          for role in ('publish', 'fetch')]
  try:
    for end in ends:
      end.wait_until_ready()
    for secs in (0.1, 1.):  # The first time they meet.
      for end in ends:
        end.ask(secs)
      published, fetched = (end.answer() for end in ends)
  finally:
    for end in ends:
      end.close()
  assert fetched['steps'] == pytest.approx(published['steps'], rel=0.3)
  assert published['cpu_secs'] > 0 and fetched['cpu_secs'] > 0
