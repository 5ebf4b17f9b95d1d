"""Interfaces of learner, reader and fetcher for other modules."""

from typing import Dict, Optional, Protocol

import numpy as np
import tensorflow as tf

from impala_tf import types
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.runtime import host as host_lib


class Learner(Protocol):
  """A learner as its loop sees it; see `learner.Learner`."""
  num_updates: tf.Variable
  num_frames: tf.Variable
  hyperparameters: hyperparameters_lib.Hyperparameters

  def update(self, unroll: types.Unroll) -> Dict[str, np.float32]:
    """Learns from one batch; returns metrics, including 'gradient_norm'."""


class Fetcher(Protocol):
  """A source of parameters; see `weights.Fetcher`."""

  def fetch(self) -> Optional[int]:
    """Updates the agent's variables and returns their version."""


class Reader(Protocol):
  """A source of batches; see `dataset.BatchReader`.

  Attributes:
    wait_secs: seconds spent waiting for batches so far.
  """
  wait_secs: float

  def next(self, host: host_lib.LearnerHost) -> Optional[types.Unroll]:
    """Returns the next batch, or None if the host says to stop."""
