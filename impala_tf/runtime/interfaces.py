"""Interfaces of the learner's loop: its parts, and its callbacks."""

import dataclasses
from typing import Any, Callable, NamedTuple, Protocol, Sequence

import numpy as np
import tensorflow as tf

from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.runtime import control as control_lib


class Learner(Protocol):
  """A learner as its loop sees it; see `learner.Learner`."""
  num_updates: tf.Variable
  num_frames: tf.Variable
  hyperparameters: hyperparameters_lib.Hyperparameters

  def update(self, batch: Any) -> dict[str, Any]:
    """Learns from one batch; returns metrics, such as 'gradient_norm'."""


class Fetcher(Protocol):
  """A source of parameters; see `weights.Fetcher`."""

  def fetch(self) -> int | None:
    """Updates the agent's variables and returns their version."""


class Reader(Protocol):
  """A source of batches; see `batches.BatchReader`."""

  def poll(self, control: control_lib.LoopControl) -> Any | None:
    """Returns the next batch, or None once `control` has got the cause."""


@dataclasses.dataclass
class Update:
  """An update that was just made, for callbacks.

  Attributes:
    updates: of the run so far.
    frames: environment frames learned from so far.
    metrics: by name, such as 'entropy'; of a skipped update at most those of
      `replayed/`.
    batch: `types.Unroll` that it learned from, leading [T+1, B]; with A3C
      `parameter_server.Segments`.
    lags: policy lag of each unroll in updates, int64 [B].
    wait_secs: seconds that the loop waited for the batch.
    episode_return: mean return of the last 100 full episodes; None before so
      many have ended since the start, and as many as there are environments.
  """
  updates: int
  frames: int
  metrics: dict[str, Any]
  batch: Any
  lags: np.ndarray
  wait_secs: float
  episode_return: float | None = None


class Callback(Protocol):
  """An object that is called after each update."""

  def after_update(self, update: Update) -> None:
    """Is called after each update; may raise StopTraining."""


class StopTraining(Exception):
  """Error by which a callback ends the run, which then counts as done."""


class Reports(NamedTuple):
  """Functions and objects that a run reports to, in addition to its files."""
  # Called with each row of metrics after it was written.
  on_row: Callable[[dict[str, Any]], None] = lambda row: None
  callbacks: Sequence[Callback] = ()  # The user's, called after each update.
  profile: bool = False  # Whether to record a few updates for TensorBoard.
