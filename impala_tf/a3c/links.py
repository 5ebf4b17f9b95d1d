"""Links by which a process of workers gets parameters and gives gradients.

The workers of a process pull parameters as a segment begins, and push a
gradient as it ends. On the learner's machine both happen in memory that the
processes share (`MemoryLink`). Others use the learner's tables
(`gradient_table.TableLink`), and the learner changes its memory itself.
"""

from typing import Callable, Dict, NamedTuple, Optional, Protocol

import numpy as np
import tensorflow as tf

from impala_tf.a3c import optimizers
from impala_tf.a3c import store as store_lib
from impala_tf.agents import acting
from impala_tf.agents import agent as agent_lib


class Contribution(NamedTuple):
  """The contribution of a segment to the shared parameters.

  Attributes:
    gradient: float32 [P], clipped.
    worker: name of the worker that played it.
    slot: index in `Store.slots` of the memory of the worker's optimiser.
    version: updates behind the parameters that played the segment.
    num_frames: environment frames of the segment.
    metrics: facts for logs, among them `gradient_norm` before clipping.
    episode: `episode_return` and `episode_steps` of the episode that ended with
      the segment; empty if none did.
  """
  gradient: np.ndarray
  worker: str
  slot: int
  version: int
  num_frames: int
  metrics: Dict[str, float]
  episode: Dict[str, float]


class Settings(NamedTuple):
  """Numbers of a run that decide how its parameters change.

  Attributes:
    learning_rate: learning rate at frame 0.
    annealed: whether it falls linearly to 0 at `total_frames`.
    total_frames: environment frames of the whole run.
    target_interval_frames: I_target.
  """
  learning_rate: float
  annealed: bool
  total_frames: int
  target_interval_frames: int

  def learning_rate_at(self, num_frames: int) -> float:
    """Returns an update's rate; `num_frames` includes the update's own."""
    if not self.annealed:
      return self.learning_rate
    left = max(self.total_frames - num_frames, 0) / self.total_frames
    return self.learning_rate * left


class Link(Protocol):
  """A process's way to the shared parameters."""

  def pull(self) -> store_lib.Counts:
    """Brings the agent up to date; returns counts from before that."""

  def push(self, contribution: Contribution) -> None:
    """Changes the shared parameters by a contribution."""


class Applier:
  """A function object that changes the shared parameters by contributions."""

  def __init__(self, store: store_lib.Store, update: optimizers.UpdateFn,
               settings: Settings):
    self._store = store
    self._update = update
    self._settings = settings

  def __call__(self, contribution: Contribution) -> None:
    """Takes a step, unless the gradient is not finite, and records it."""
    counts = self._store.counts
    learning_rate = self._settings.learning_rate_at(
        counts.num_frames + contribution.num_frames)
    if np.isfinite(contribution.metrics['gradient_norm']):
      self._store.push(self._update, contribution.slot, contribution.gradient,
                       learning_rate)
    self._store.add_frames(
        contribution.num_frames, self._settings.target_interval_frames, {
            'worker': contribution.worker,
            # Parameters of a lost learner may be ahead of a resumed one's.
            'lag': max(0, counts.num_updates - contribution.version),
            'metrics': {**contribution.metrics, 'learning_rate': learning_rate},
            **contribution.episode})


class MemoryLink:
  """A link through memory that the processes of a machine share."""

  def __init__(self, store: store_lib.Store, agent: agent_lib.Agent,
               apply: Callable[[Contribution], None],
               target_agent: Optional[agent_lib.Agent] = None):
    """Prepares the copies.

    Args:
      store: shared parameters.
      agent: agent that gets a copy of them with each pull.
      apply: changes them by a contribution.
      target_agent: agent that gets a copy of theta-minus whenever that is
        replaced; None for none.
    """
    self._store = store
    self._apply = apply
    self._input_buffer = acting.InputBuffer(store.parameters[np.newaxis], 1)
    self._assign = _make_assign(agent)
    self._assign_target = target_agent and _make_assign(target_agent)
    self._num_syncs = -1  # Of the target agent's parameters.

  def pull(self) -> store_lib.Counts:
    """Copies the shared parameters, and the target's if they are new."""
    counts = self._store.counts
    self._assign(
        self._input_buffer.tensor(self._store.parameters[np.newaxis], 1))
    if self._assign_target and counts.num_syncs != self._num_syncs:
      self._assign_target(self._input_buffer.tensor(
          self._store.target_parameters[np.newaxis], 1))
      self._num_syncs = counts.num_syncs
    return counts

  def push(self, contribution: Contribution) -> None:
    """Changes the shared parameters in place."""
    self._apply(contribution)


def _make_assign(agent: agent_lib.Agent) -> Callable[[tf.Tensor], None]:
  """Makes a function that assigns a tensor [1, P] to an agent's variables."""
  variables = agent.trainable_variables
  sizes = [variable.shape.num_elements() for variable in variables]

  def put(parameters):
    # A variable may take the memory of what it is assigned for its own.
    copy = tf.raw_ops.DeepCopy(x=tf.reshape(parameters, [-1]))
    for variable, values in zip(variables, tf.split(copy, sizes)):
      variable.assign(tf.reshape(values, variable.shape))

  return tf.function(put, autograph=False).get_concrete_function(
      tf.TensorSpec([1, sum(sizes)], tf.float32))
