"""A run whose actor and learner take turns in one process."""

import dataclasses

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.core import loop
from impala_tf.core import queue as queue_lib
from impala_tf.roles import learner_parts
from impala_tf.roles import learner_with_actors
from impala_tf.roles import learning
from impala_tf.roles import shared_parameters
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing


def run(config: config_lib.Config, endpoint: control_lib.Endpoint,
        control: control_lib.LoopControl, reports: interfaces.Reports) -> bool:
  """Plays and learns in turns; returns whether the run is done.

  Data takes the same hops as between processes. The same seed gives the same
  numbers unless unrolls are replayed: Reverb's sampling takes no seed. Each
  agent that shares a replay is such a process, and keeps pace with the others.
  """
  if algorithms.architecture(config) == algorithms.SHARED_PARAMETERS:
    return shared_parameters.run_in_process(
        config, endpoint.run_dir, control, reports)
  tf.config.experimental.enable_op_determinism()
  parts = learner_parts.make(config, endpoint, learner_group.alone())
  config = parts.config
  if parts.reader is None:  # The learner plays, and nobody fetches.
    return learning.learn(parts, learning.batches(parts, control), reports)
  # On resume, use a new seed.
  actor = learner_with_actors.start_actor(
      config, parts.address, int(parts.state.learner.num_updates.numpy()),
      task=0, control=control_lib.ActorControl(), sharing=endpoint.sharing)
  player = loop.Player(
      actor, sizing.fitted(config.actor.num_envs), config.num_fresh,
      parts.refusals, parts.publisher.catch_up)

  def on_wait(cause):
    control.on_wait(cause)
    link = parts.link
    if link is not None and not link.problem and (
        not link.infos[queue_lib.REPLAY].current_size):  # It has lost all.
      assert isinstance(actor.writer, queue_lib.UnrollWriter)
      actor.writer.refill()

  batches = loop.play_then_learn(
      player, parts.reader, dataclasses.replace(control, on_wait=on_wait))
  try:
    return learning.learn(parts, batches, reports)
  finally:
    actor.close()
