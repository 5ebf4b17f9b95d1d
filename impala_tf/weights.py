"""The Reverb table through which parameters go from learner to actors.

The table holds the newest parameters only, as one flat vector (one column is
one copy, whatever the number of variables), with the numbers of learner updates
and of environment frames behind them.

Actors fetch, and nobody sends to them: a fetch serves the E unrolls that an
actor plays at once, so there are B/E fetches in an update however many actors
share them, and each gets the newest parameters (docs/scaling.md). Where E is
small, `ActorConfig.fetch_interval_unrolls` has an actor keep them longer.
"""

import collections
import functools
import threading
import time
from typing import Callable, Optional, Sequence

import numpy as np
import reverb
import tensorflow as tf

from impala_tf.processes import waiting
from impala_tf.transport import reverb_calls

_TABLE = 'weights'
_POLL_SECS = 0.1


def make_table(variables: Sequence[tf.Variable]) -> reverb.Table:
  """Makes the table for parameters of these shapes."""
  size = sum(int(np.prod(v.shape)) for v in variables)
  return reverb.Table(
      name=_TABLE,
      sampler=reverb.selectors.Fifo(),
      remover=reverb.selectors.Fifo(),
      max_size=1,
      rate_limiter=reverb.rate_limiters.MinSize(1),
      max_times_sampled=0,  # Any number of actors reads it.
      signature=(tf.TensorSpec([], tf.int64, 'version'),
                 tf.TensorSpec([size], tf.float32, 'parameters'),
                 tf.TensorSpec([], tf.int64, 'frames')))


class Publisher:
  """A publisher that sends the learner's parameters to the table."""

  def __init__(self, address: str, variables: Sequence[tf.Variable],
               frames_at: Callable[[int], int]):
    """Connects.

    Args:
      address: 'host:port' of the learner's server.
      variables: the learner's parameters.
      frames_at: function from a number of updates to the environment frames
        that were learned from in them.
    """
    self._frames_at = frames_at
    self._client = reverb.Client(address)
    # Kept open: `client.insert` would open another, at twice the cost.
    self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)
    self._variables = list(variables)
    self._flatten = tf.function(
        lambda: tf.concat([tf.cast(tf.reshape(v, [-1]), tf.float32)
                           for v in self._variables], 0), autograph=False)

  def snapshot(self) -> np.ndarray:
    """Copies the parameters into one vector, float32 [P]."""
    return self._flatten().numpy()

  def publish(self, version: int, parameters: np.ndarray) -> None:
    """Publishes a snapshot, which actors fetch from now on.

    Raises:
      ConnectionError: where the server does not answer.
    """
    self._writer.append(
        (np.int64(version), parameters, np.int64(self._frames_at(version))))
    self._writer.create_item(
        _TABLE, priority=1.0,
        trajectory=tuple(column[-1] for column in self._writer.history))
    reverb_calls.flush(self._client, self._writer)


class BackgroundPublisher:
  """A publisher in a thread, so that updates do not wait for it.

  Only the newest snapshot counts: one that is still waiting when the next
  arrives is dropped.
  """

  def __init__(self, publisher: Publisher):
    self._publisher = publisher
    self._newest = None
    self._error = None
    self._wake = threading.Condition()
    threading.Thread(target=self._run, daemon=True).start()

  def publish(self, version: int) -> None:
    """Hands over the parameters as they are now; raises a past failure."""
    snapshot = self._publisher.snapshot()
    with self._wake:
      if self._error is not None:
        raise RuntimeError('publishing the parameters failed') from self._error
      self._newest = (version, snapshot)
      self._wake.notify()

  def _run(self):
    while True:
      with self._wake:
        self._wake.wait_for(lambda: self._newest is not None)
        newest, self._newest = self._newest, None
      try:
        self._publisher.publish(*newest)
      except Exception as error:  # pylint: disable=broad-except
        with self._wake:
          self._error = error
        return


class DelayedPublisher:
  """A publisher that is a fixed number of updates late (appendix E.1)."""

  def __init__(self, publisher: Publisher, version: int, lag_updates: int):
    """Publishes the parameters as they are now, there being no older ones.

    Args:
      publisher: sends snapshots to the table.
      version: learner updates behind the parameters.
      lag_updates: N; so many snapshots are kept in memory.
    """
    self._publisher = publisher
    self._snapshots = collections.deque(maxlen=lag_updates + 1)
    self.publish(version)

  def publish(self, version: int) -> None:
    """Publishes the parameters of N calls ago, or else the oldest there are.

    Raises:
      ConnectionError: where the server does not answer.
    """
    self._snapshots.append((version, self._publisher.snapshot()))
    self._publisher.publish(*self._snapshots[0])


class Fetcher:
  """A fetcher that brings an actor's variables up to date.

  Attributes:
    frames: environment frames behind the parameters that were fetched last.
  """

  def __init__(self, address: str, variables: Sequence[tf.Variable],
               run_table: Optional[str] = None, interval: int = 1):
    """Connects.

    Args:
      address: 'host:port' of the learner's server.
      variables: variables that are brought up to date.
      run_table: table that the server has as long as it is of the same run;
        see `config_table.table_name`.
      interval: the learner is asked at the first of so many calls of `fetch`;
        the others leave all as it is.
    """
    self._client = reverb.Client(address)
    self._run_table = run_table
    self._interval = interval
    self._calls_left = 0  # Until the learner is asked again.
    self._sizes = [int(np.prod(v.shape)) for v in variables]
    assign = functools.partial(_unflatten, list(variables), self._sizes)
    self._assign = tf.function(assign, autograph=False).get_concrete_function(
        tf.TensorSpec([sum(self._sizes)], tf.float32))
    self._inserts_seen = 0
    self._version = None
    self.frames = 0

  def fetch(self) -> Optional[int]:
    """Brings the variables up to date.

    Returns:
      The version they now hold; None while nothing has been published.

    Raises:
      ConnectionError: where the server does not answer, or is of another run.
      ValueError: where the learner's agent has another number of parameters.
    """
    if self._version is not None and self._calls_left:
      self._calls_left -= 1
      return self._version
    self._calls_left = self._interval - 1
    info = reverb_calls.server_info(self._client)
    if self._run_table and self._run_table not in info:
      raise ConnectionError('the learner there is of another config now')
    # The count of inserts tells in half a millisecond whether it is worth
    # asking, and `sample` would block on an empty table or a dead server.
    inserts = info[_TABLE].rate_limiter_info.insert_stats.completed
    if info[_TABLE].current_size and inserts != self._inserts_seen:
      self._inserts_seen = inserts
      # `sample` is fresh; a dataset over the table would prefetch old ones.
      sample = next(iter(self._client.sample(
          _TABLE, emit_timesteps=False, unpack_as_table_signature=True)))
      version, parameters, frames = sample.data
      if parameters.size != sum(self._sizes):
        raise ValueError(f'the learner sent {parameters.size} parameters, but '
                         f'this agent has {sum(self._sizes)}')
      self._assign(tf.constant(parameters))
      self._version, self.frames = int(version), int(frames)
    return self._version

  def wait(self, poll: waiting.PollFn) -> int:
    """Fetches the parameters once some are published.

    Args:
      poll: function that is called while there are none.

    Returns:
      The version that the variables now hold.
    """
    while True:
      version = self.fetch()
      if version is not None:
        return version
      poll('it has published no parameters yet')
      time.sleep(_POLL_SECS)


def _unflatten(variables, sizes, parameters):
  """Assigns pieces of one vector to the variables."""
  for variable, values in zip(variables, tf.split(parameters, sizes)):
    variable.assign(
        tf.cast(tf.reshape(values, variable.shape), variable.dtype))
