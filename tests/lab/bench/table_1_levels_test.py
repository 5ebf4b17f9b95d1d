"""Tests of the levels of the table of throughputs."""

import importlib
import itertools
import sys
import time

import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.envs import factory

_MODULE = 'lab.bench.table_1_levels'


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
  """Registers the levels for the time of a test."""
  monkeypatch.setattr(factory, 'DOMAINS', dict(factory.DOMAINS))
  monkeypatch.delitem(sys.modules, _MODULE, raising=False)
  yield importlib.import_module(_MODULE)
  monkeypatch.delitem(sys.modules, _MODULE)


def _make(level, num_envs, seed):
  return factory.make_environment(
      level, num_envs, seed, config_lib.Config(), training=True)


def test_single_level_is_the_same_and_may_step_alone():
  single, other = _make('single/catch', 3, 5), _make('catch', 3, 5)
  actions = np.array([0, 1, 2], np.int32)
  for _ in range(12):
    for timesteps in zip(single.step(actions), other.step(actions)):
      np.testing.assert_array_equal(*timesteps)
  assert factory.domain_of('atari/pong').steps_batches
  assert not factory.domain_of('single/atari/pong').steps_batches


def test_restarts_take_twenty_times_as_much_of_a_core(monkeypatch):
  env = _make('timed/slow_restarts', 4, 7)
  clock = itertools.count()  # A millisecond passes with each look at it.
  monkeypatch.setattr(time, 'thread_time', lambda: next(clock) * 1e-3)
  rows = [env.step(np.zeros(4, np.int32)) for _ in range(100)]
  num_last = sum(np.sum(row.discount == 0) for row in rows)
  assert num_last == sum(np.sum(row.step_type == 0) for row in rows) > 3
  assert 100 <= next(clock) - (400 + 19 * num_last) <= 200
