"""Links by which workers' processes read parameters and send gradients.

The workers of a process pull parameters as a segment begins, and push a
gradient as it ends. On the learner's machine both happen in memory that the
processes share (`MemoryLink`). Workers of other machines fetch parameters from
the learner's table, as actors do, and put gradients into a short queue
(`TableLink`). The learner applies one after another (`start_intake`): a
parameter server, as A3C has between machines (Espeholt et al. 2018, table 1).
"""

from concurrent import futures
import json
import threading
from typing import Callable, Iterator, NamedTuple

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.a3c import store as store_lib
from impala_tf.agents import acting
from impala_tf.agents import agent as agent_lib
from impala_tf.comms import reverb_calls
from impala_tf.comms import sampling
from impala_tf.core import weights

_TABLE = 'gradients'
# A gradient that waits grows old; a full queue makes workers wait instead.
_CAPACITY = 8
# The record that the learner makes of a text must fit, too. It has the learning
# rate and the lag besides.
_TEXT_BYTES = store_lib.RECORD_BYTES - 128


class Contribution(NamedTuple):
  """A worker's gradient from one segment, with its counts and metrics."""
  gradient: np.ndarray  # float32 [P], clipped.
  worker: str  # Name of the worker that played it.
  slot: int  # Index in `Store.slots` of the memory of the worker's optimiser.
  version: int  # Updates behind the parameters that played the segment.
  num_frames: int  # Environment frames of the segment.
  # Facts for logs, among them `gradient_norm` before clipping.
  metrics: dict[str, float]
  # `episode_return` and `episode_steps` of the episode that ended with the
  # segment; empty if none did.
  episode: dict[str, float]


def make_apply(config: config_lib.Config, store: store_lib.Store
               ) -> Callable[[Contribution], None]:
  """Returns a function that applies a contribution and records the update.

  If a contribution's gradient is not finite the parameters stay as they are.
  """
  optimizer, options = config.optimizer, config.asynchronous
  total_frames = config.experiment.total_frames
  update = store_lib.make_optimizer(
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
               agent: agent_lib.Agent, target_agent: agent_lib.Agent | None):
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
    """Reads the counts, then copies the parameters; returns the counts."""
    counts = self._store.counts
    self._assign(self._copy(self._store.parameters))
    if self._assign_target and counts.num_syncs != self._num_syncs:
      self._assign_target(self._copy(self._store.target_parameters))
      self._num_syncs = counts.num_syncs
    return counts


def make_table(num_parameters: int) -> reverb.Table:
  """Makes the queue of contributions: first in, first out, each read once."""
  return reverb.Table.queue(_TABLE, _CAPACITY, signature=(
      tf.TensorSpec([num_parameters], tf.float32, 'gradient'),
      # A writer's texts must be of one length.
      tf.TensorSpec([_TEXT_BYTES], tf.uint8, 'json')))


class TableLink:
  """A link through the tables of a learner on another machine."""

  def __init__(self, address: str, fetcher: weights.Fetcher):
    """Connects to the learner's server; `fetcher` must have fetched before."""
    self._fetcher = fetcher
    self._client = reverb.Client(address)
    self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)

  def pull(self) -> store_lib.Counts:
    """Fetches parameters; returns counts of frames and updates behind them.

    Raises ConnectionError if the server does not answer, or is of another run.
    """
    version = self._fetcher.fetch()
    assert version is not None  # See `__init__`.
    # Nobody here has a target network that could be replaced.
    return store_lib.Counts(self._fetcher.frames, version, num_syncs=0)

  def push(self, contribution: Contribution) -> None:
    """Sends a contribution and waits until the queue has received it.

    Raises ConnectionError without a server.
    """
    facts = contribution._asdict()
    gradient = facts.pop('gradient')
    reverb_calls.insert(
        self._client, self._writer, _TABLE, [gradient, np.frombuffer(
            json.dumps(facts).encode().ljust(_TEXT_BYTES), np.uint8)])


Link = MemoryLink | TableLink


def contributions(address: str) -> Iterator[Contribution]:
  """Yields contributions from the queue of this process's server."""
  # Read ahead, they would grow old.
  for sample in sampling.samples(
      sampling.Source(address, _TABLE, 1)).as_numpy_iterator():
    gradient, text = sample.data
    yield Contribution(gradient, **json.loads(bytes(text)))


def start_intake(
    address: str, store: store_lib.Store, apply: Callable[[Contribution], None],
    publisher: weights.Publisher, total_frames: int) -> Callable[[], None]:
  """Starts a thread that applies the queue's contributions, one by one.

  `address` is that of this process's server. `store` must be opened for this
  thread alone: a lock on the same file would not keep out other threads of the
  process. Returns a function that raises RuntimeError if the thread has failed.
  """
  failed: futures.Future[None] = futures.Future()

  def run():
    try:
      for contribution in contributions(address):
        if store.counts.num_frames >= total_frames:
          return  # The learner is about to end.
        apply(contribution)
        publisher.publish(store.counts.num_updates)
    except Exception as error:  # pylint: disable=broad-except
      failed.set_exception(error)

  def check():
    if failed.done():
      raise RuntimeError('applying gradients failed') from failed.exception()

  threading.Thread(target=run, daemon=True).start()
  return check
