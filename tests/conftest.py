"""Settings that every test shares."""

import os
import random
import sys

import numpy as np
import pytest

# Before TensorFlow is imported: errors only, and one thread, since the tests
# already run in as many processes as there are cores.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
os.environ.setdefault('TF_NUM_INTRAOP_THREADS', '1')
os.environ.setdefault('TF_NUM_INTEROP_THREADS', '1')


@pytest.fixture(autouse=True)
def fixed_seeds():
  """Gives each test the same random numbers, whatever ran before it."""
  random.seed(0)
  np.random.seed(0)
  if 'tensorflow' in sys.modules:  # Not worth its import where nobody uses it.
    sys.modules['tensorflow'].random.set_seed(0)
