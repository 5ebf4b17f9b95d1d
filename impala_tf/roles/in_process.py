"""Actor and learner in turns, within one process."""

import dataclasses
from typing import Callable, Optional

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.core import actor as actor_lib
from impala_tf.core import loop
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.roles import actor_learner
from impala_tf.roles import learner_parts
from impala_tf.roles import learning
from impala_tf.roles import shared_parameters
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing


class _Player:
  """A `loop.Player` of an actor's unrolls."""

  def __init__(self, actor: actor_lib.Actor, parts: learner_parts.LearnerParts,
               before_unroll: Callable[[], None]):
    """Stores the parts; `before_unroll` is called before each is played."""
    self._actor = actor
    self._parts = parts
    self._before_unroll = before_unroll
    self._num_played = 0

  def lacks(self, num_batches: int) -> bool:
    config, refusals = self._parts.config, self._parts.refusals
    # Refused unrolls of other agents are not played again here.
    num_refused = refusals.total - refusals.num_replayed
    return self._num_played < num_batches * config.num_fresh + num_refused

  def play(self) -> None:
    self._before_unroll()
    self._actor.run_unroll()
    self._num_played += self._parts.config.actor.num_envs

  def refill(self) -> None:
    """Writes an unroll again if a shared replay has lost all that it had."""
    link = self._parts.link
    if link is not None and not link.problem and (
        not link.infos[queue_lib.REPLAY].current_size):
      self._actor.writer.refill()


class _LatePublisher:
  """A publisher that publishes parameters just before they are fetched.

  Eight batches or so may be played with the same ones, and intermediate
  versions are never fetched.
  """

  def __init__(self, publisher: weights.Publisher):
    self._publisher = publisher
    self._version: Optional[int] = None

  def publish(self, version: int) -> None:
    self._version = version

  def catch_up(self) -> None:
    """Publishes the newest version unless it was published."""
    if self._version is not None:
      self._publisher.publish(self._version)
      self._version = None


def run(config: config_lib.Config, place: learner_parts.Place,
        control: control_lib.LoopControl,
        reports: interfaces.Reports = interfaces.NO_REPORTS) -> bool:
  """Plays and learns in turns; returns whether the run is done.

  Data takes the same hops as between processes. The same seed gives the same
  numbers unless unrolls are replayed: Reverb's sampling takes no seed. Each
  agent that shares a replay is such a process, and keeps pace with the others.
  """
  if algorithms.architecture(config) == algorithms.SHARED_PARAMETERS:
    return shared_parameters.run_in_process(
        config, place.run_dir, control, reports)
  announced, config = config, sizing.fit(config)
  tf.config.experimental.enable_op_determinism()
  parts = learner_parts.make(
      config, announced, place, config.num_fresh + config.actor.num_envs,
      learner_group.alone())
  publisher = late = _LatePublisher(parts.publisher)
  batches = parts.batches(control)
  if not config.learner_plays:
    # On resume, use a new seed.
    actor = actor_learner.start_actor(
        config, parts.address, int(parts.state.learner.num_updates.numpy()),
        task=0, control=control_lib.ActorControl(),
        replay_address=place.replay_address, agent_number=place.agent)
    if config.actor.controlled_lag_updates is not None:
      publisher = parts.publisher  # Old parameters come of every version.
    player = _Player(actor, parts, late.catch_up)
    batches = loop.play_then_learn(player, parts.reader, dataclasses.replace(
        control, on_wait=lambda cause: (control.on_wait(cause),
                                        player.refill())))
  # By updates: means over a stretch of time would differ between runs.
  return learning.learn(
      parts, batches, publisher, control, reports, log_interval_secs=0.,
      log_interval_updates=config.experiment.log_interval_updates)
