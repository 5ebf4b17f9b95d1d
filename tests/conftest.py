"""Settings that every test shares."""

import atexit
import os
import random
import sys

import numpy as np
import pytest

import impala_tf  # noqa: F401  Has switches for TensorFlow, too.
from impala_tf.envs import display

# Before TensorFlow is imported: errors only, and one thread, since the tests
# already run in as many processes as there are cores.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
os.environ.setdefault('TF_NUM_INTRAOP_THREADS', '1')
os.environ.setdefault('TF_NUM_INTEROP_THREADS', '1')
display.draw_without_display()  # Before a test imports a simulator by itself.


@pytest.fixture(autouse=True)
def fixed_seeds():
  """Gives each test the same random numbers, whatever ran before it."""
  random.seed(0)
  np.random.seed(0)
  if 'tensorflow' in sys.modules:  # Not worth its import where nobody uses it.
    sys.modules['tensorflow'].random.set_seed(0)


_servers = []
atexit.register(_servers.clear)


@pytest.fixture(scope='module')
def servers_stay():
  """Keeps Reverb's servers running until the process ends.

  A thread that waits for a queue cannot be ended. Without its server it would
  look for it over and over, and slow down all tests that come after.
  """
  from impala_tf import replay
  make_server = replay.make_server

  def make_and_keep(*arguments, **kwargs):
    _servers.append(make_server(*arguments, **kwargs))
    return _servers[-1]

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(replay, 'make_server', make_and_keep)
    yield


@pytest.fixture(scope='module')
def fake_deepmind_lab():
  """Puts the stand-in where the simulator would be; returns it."""
  from tests.envs import fake_deepmind_lab as module
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(sys.modules, 'deepmind_lab', module)
    yield module
