"""Numbers that the constructors of a run's environments can read."""

import contextlib
import functools
import os

import pytest

from impala_tf import config as config_lib
from impala_tf.envs import copies
from impala_tf.envs import multi_level
from tests.fixtures import worker_environments


@pytest.mark.parametrize('first', [0, 12])
def test_numbers_are_of_the_run_whoever_makes_the_environments(
    first, monkeypatch):
  made = []

  def make(level, num_envs, seed):
    for i in range(num_envs):
      with copies.constructing(copies.numbers()[i]):
        made.append((level, int(os.environ[copies.VARIABLE])))
    return worker_environments.Ticking(num_envs)

  multi_level.MultiLevelEnvironment('both', ['a', 'b'], 5, 0, first, make)
  assert sorted(made, key=lambda pair: pair[1]) == [
      (level, first + i) for i, level in enumerate('ababa')]
  made.clear()
  monkeypatch.setattr(multi_level, 'make_level', lambda config, training: make)
  multi_level.make_environment('catch', 2, first_slot=first)
  assert made == [('catch', first), ('catch', first + 1)]
  assert copies.VARIABLE not in os.environ


def test_numbers_reach_environment_processes():
  workers = multi_level.make_workers(
      'a', 0, 12, functools.partial(worker_environments.numbered),
      config_lib.ActorConfig(num_envs=3, env_processes=2))
  with contextlib.closing(workers):
    numbers, timestep = workers.recv(min_ready=3)
    assert (timestep.reward == 12 + numbers).all()
