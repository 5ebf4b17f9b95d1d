"""Actor and learner, or members of a population, in turns in one process."""

import dataclasses
from typing import Mapping

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.core import loop
from impala_tf.core import queue as queue_lib
from impala_tf.pbt import populations
from impala_tf.roles import endpoint as endpoint_lib
from impala_tf.roles import learner_parts
from impala_tf.roles import learner_with_actors
from impala_tf.roles import learning
from impala_tf.roles import shared_parameters
from impala_tf.runs import metrics
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing


def run(config: config_lib.Config, endpoint: endpoint_lib.Endpoint,
        control: control_lib.LoopControl,
        reports: interfaces.Reports) -> bool:
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


def run_population(members: Mapping[str, config_lib.Config],
                   control: control_lib.LoopControl,
                   reports: interfaces.Reports = interfaces.NO_REPORTS
                   ) -> None:
  """Trains a population in turns, those with the fewest frames first.

  Members of `./launch/population.sh` run at once and compare themselves with
  the newest records of the others, which depend on chance. Here each trains
  until its next decision, while the others rest. So the same seeds give the
  same numbers, however often it is stopped between two turns. `members` has the
  config of each member by the existing directory of its run, whose checkpoints
  are resumed from.
  """
  unfinished = list(members)  # In order: of equal frames the first one plays.
  while unfinished and not control.should_stop():
    run_dir = min(unfinished, key=_frames)
    if _take_turn(members[run_dir], run_dir, control, reports):
      unfinished.remove(run_dir)


def _frames(run_dir: str) -> int:
  rows = metrics.read_rows(run_dir)
  return rows[-1]['frames'] if rows else 0


def _take_turn(config: config_lib.Config, run_dir: str,
               control: control_lib.LoopControl, reports: interfaces.Reports
               ) -> bool:
  """Trains a member until its next decision; returns whether it is done."""
  before = populations.read_published(run_dir)

  def should_stop():
    return (control.should_stop() or
            populations.read_published(run_dir) != before)

  return run(
      config, endpoint_lib.Endpoint(run_dir),
      dataclasses.replace(control, should_stop=should_stop), reports)
