"""Links by which a process of workers gets parameters and gives gradients.

The workers of a process pull parameters as a segment begins, and push a
gradient as it ends. On the learner's machine both happen in memory that the
processes share (`MemoryLink`). Others use the learner's tables
(`gradient_table.TableLink`), and the learner changes its memory itself.
"""

from typing import Callable, Dict, NamedTuple, Optional, Protocol

import numpy as np

from impala_tf import config as config_lib
from impala_tf.a3c import optimizers
from impala_tf.a3c import store as store_lib
from impala_tf.agents import acting
from impala_tf.agents import agent as agent_lib


class Contribution(NamedTuple):
  """The contribution of a segment to the shared parameters."""
  gradient: np.ndarray  # float32 [P], clipped.
  worker: str  # Name of the worker that played it.
  slot: int  # Index in `Store.slots` of the memory of the worker's optimiser.
  version: int  # Updates behind the parameters that played the segment.
  num_frames: int  # Environment frames of the segment.
  # Facts for logs, among them `gradient_norm` before clipping.
  metrics: Dict[str, float]
  # `episode_return` and `episode_steps` of the episode that ended with the
  # segment; empty if none did.
  episode: Dict[str, float]


class Link(Protocol):
  """A process's way to the shared parameters."""

  def pull(self) -> store_lib.Counts:
    """Brings the agent up to date; returns counts from before that."""

  def push(self, contribution: Contribution) -> None:
    """Changes the shared parameters by a contribution."""


def make_apply(config: config_lib.Config, store: store_lib.Store
               ) -> Callable[[Contribution], None]:
  """Returns a function that changes the shared parameters and records it.

  If a contribution's gradient is not finite the parameters stay as they are.
  """
  optimizer, options = config.optimizer, config.asynchronous
  total_frames = config.experiment.total_frames
  update = optimizers.make(
      options.optimizer, optimizer.decay, optimizer.epsilon)

  def apply(contribution: Contribution) -> None:
    counts, learning_rate = store.counts, optimizer.learning_rate
    if optimizer.annealed:
      num_frames = counts.num_frames + contribution.num_frames
      learning_rate *= max(total_frames - num_frames, 0) / total_frames
    if np.isfinite(contribution.metrics['gradient_norm']):
      store.push(
          update, contribution.slot, contribution.gradient, learning_rate)
    store.add_frames(
        contribution.num_frames, options.target_interval_frames, {
            'worker': contribution.worker,
            # Parameters of a lost learner may be ahead of a resumed one's.
            'lag': max(0, counts.num_updates - contribution.version),
            'metrics': {**contribution.metrics, 'learning_rate': learning_rate},
            **contribution.episode})

  return apply


class MemoryLink:
  """A link through memory that the processes of a machine share."""

  def __init__(self, config: config_lib.Config, store: store_lib.Store,
               agent: agent_lib.Agent, target_agent: Optional[agent_lib.Agent]):
    self._store = store
    self.push = make_apply(config, store)
    size = store.parameters.size
    input_buffer = acting.InputBuffer(store.parameters, size)
    self._copy = lambda parameters: input_buffer.tensor(parameters, size)
    self._assign = acting.make_assign(agent.trainable_variables)
    self._assign_target = target_agent and acting.make_assign(
        target_agent.trainable_variables)
    self._num_syncs = -1  # Of the target agent's parameters.

  def pull(self) -> store_lib.Counts:
    counts = self._store.counts
    self._assign(self._copy(self._store.parameters))
    if self._assign_target and counts.num_syncs != self._num_syncs:
      self._assign_target(self._copy(self._store.target_parameters))
      self._num_syncs = counts.num_syncs
    return counts
