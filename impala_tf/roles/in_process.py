"""Actor and learner in turns, within one process."""

from typing import Callable, Optional, Sequence

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.core import actor as actor_lib
from impala_tf.core import loop as loop_lib
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.roles import actor_learner
from impala_tf.roles import learner_parts
from impala_tf.roles import shared_parameters
from impala_tf.runtime import host as host_lib
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing


class _Turns(host_lib.LearnerHost):
  """A learner's host that has the actor play before each batch is read."""

  def __init__(self, host: host_lib.LearnerHost, actor: actor_lib.Actor,
               parts: learner_parts.LearnerParts,
               send: Optional[Callable[[], None]]):
    self._host = host
    self._actor = actor
    self._config = parts.config
    self._refusals = parts.refusals
    self._link = parts.link
    self._send = send
    self.on_pause = host.on_pause
    self._num_played = 0
    self._num_wanted = 0
    self.should_stop = host.should_stop
    self.on_row = host.on_row

  def before_batch(self) -> None:
    self._host.before_batch()
    self._num_wanted += self._config.num_fresh
    self._play()

  def on_wait(self, cause: str = '') -> None:
    """Plays again in place of refused unrolls."""
    self._host.on_wait(cause)
    if self._link is not None and not self._link.problem and (
        not self._link.infos[queue_lib.REPLAY].current_size):
      self._actor.writer.refill()
    self._play()

  def _play(self) -> None:
    """Plays until there is a batch, and one more unroll for each refusal."""
    # Refused unrolls of other agents are not played again here.
    refused = self._refusals.total - self._refusals.num_replayed
    while (self._num_played < self._num_wanted + refused
           and not self._host.should_stop()):
      if self._send is not None:
        self._send()
      self._actor.run_unroll()
      self._num_played += self._config.actor.num_envs


class _LatePublisher:
  """A publisher that sends parameters just before they are fetched.

  Eight batches or so may be played with the same ones, and intermediate
  versions are never fetched.
  """

  def __init__(self, publisher: weights.Publisher, version: int):
    self._publisher = publisher
    self.publish(version)
    self.send()

  def publish(self, version: int) -> None:
    self._version: Optional[int] = version

  def send(self) -> None:
    """Publishes the newest version unless it was published."""
    if self._version is not None:
      self._publisher.publish(self._version, self._publisher.snapshot())
      self._version = None


def run(config: config_lib.Config, run_dir: str, host: host_lib.LearnerHost,
        replay_address: Optional[str] = None, agent_number: int = 0,
        callbacks: Sequence[loop_lib.Callback] = ()) -> bool:
  """Plays and learns in turns; returns whether the run is done.

  Data takes the same hops as between processes. The same seed gives the same
  numbers unless unrolls are replayed: Reverb's sampling takes no seed. Each
  agent that shares a replay is such a process, and keeps pace with the others.

  Args:
    run_dir: existing directory of the run, whose checkpoints are resumed from.
    replay_address: 'host:port' of a replay that several agents share; None:
      the replay, if any, is in this process.
    agent_number: number of this agent among those.
  """
  if algorithms.architecture(config) == algorithms.SHARED_PARAMETERS:
    return shared_parameters.run_in_process(config, run_dir, host, callbacks)
  announced, config = config, sizing.fit(config)
  tf.config.experimental.enable_op_determinism()
  parts = learner_parts.make(
      config, announced, learner_parts.Place(
          run_dir, replay_address=replay_address, agent=agent_number),
      config.num_fresh + config.actor.num_envs, learner_group.alone())
  num_updates = int(parts.learner.num_updates.numpy())
  lag_updates = config.actor.controlled_lag_updates
  if lag_updates is None:
    publisher = _LatePublisher(parts.publisher, num_updates)
    send = publisher.send
  else:  # It needs the parameters of every version.
    publisher = weights.DelayedPublisher(
        parts.publisher, num_updates, lag_updates)
    send = None
  if not config.learner_plays:
    # On resume, use a new seed.
    actor = actor_learner.start_actor(
        config, parts.address, seed=num_updates, task=0,
        host=host_lib.ActorHost(), replay_address=replay_address,
        agent_number=agent_number)
    host = _Turns(host, actor, parts, send)
  # By updates: means over a stretch of time would differ between runs.
  return actor_learner.train(
      parts, publisher, log_interval_secs=0.,
      log_interval_updates=config.experiment.log_interval_updates, host=host,
      callbacks=callbacks)
