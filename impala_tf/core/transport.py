"""Functions that make tables, writer, batches and publisher from a config."""

import functools
from typing import Iterable, Sequence

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.comms import config_table
from impala_tf.comms import packing
from impala_tf.comms import parameter_memory
from impala_tf.comms import sampling
from impala_tf.comms import unroll_filter
from impala_tf.core import batches as batches_lib
from impala_tf.core import learner as learner_lib
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.replay import episodes
from impala_tf.replay import sources
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import sizing


def make_tables(config: config_lib.Config, spec: types.Unroll,
                has_replay: bool) -> list[reverb.Table]:
  """Makes the queue and, if `has_replay` and unrolls are replayed, the replay.

  `has_replay` is False if the replay is on another server. Raises ConfigError
  if memory is too small for it.
  """
  capacity = config.learner.queue_capacity
  if config.experiment.in_process:  # Nobody reads while the actor plays.
    capacity = config.num_fresh + sizing.fitted(config.actor.num_envs)
  tables = [queue_lib.make_queue(spec, capacity)]
  if config.num_replayed and has_replay:
    tables.append(make_replay(config, spec))
  return tables


def serve(config: config_lib.Config, announced: config_lib.Config,
          variables: Sequence[tf.Variable], tables: Sequence[reverb.Table],
          port: int | None, replay_dir: str | None
          ) -> tuple[reverb.Server, parameter_memory.Memory | None]:
  """Starts a learner's Reverb server, and publishes the config.

  Actors receive `announced`, the config as it was given, and fetch `variables`.
  Returns the server, and memory for parameters if other processes may share it.
  """
  memory = None if config.experiment.in_process else parameter_memory.make(
      weights.num_parameters(variables))
  server = queue_lib.make_server(
      [*tables, *weights.make_tables(variables, memory),
       config_table.make_table(announced)], port, replay_dir)
  config_table.publish(f'localhost:{server.port}', announced)
  return server, memory


def make_replay(config: config_lib.Config, spec: types.Unroll) -> reverb.Table:
  """Makes the replay; raises ConfigError if memory is too small for it."""
  exponent = config.replay.priority_exponent if config.has_priorities else 0.
  return queue_lib.make_replay(
      spec, config.replay.capacity_unrolls, sizing.memory_bytes(), exponent,
      config.chain_unrolls)


def make_writer(config: config_lib.Config, address: str, spec: types.Unroll,
                task: int = 0,
                sharing: control_lib.Sharing = control_lib.NOT_SHARED
                ) -> queue_lib.UnrollWriter:
  """Makes the writer of the unrolls of actor `task`; see `UnrollWriter`."""
  tables = [queue_lib.QUEUE]
  if config.num_replayed:
    tables = [queue_lib.REPLAY, queue_lib.QUEUE]  # The queue may block.
  stamp = packing.Stamp(np.int64(task), np.int64(
      config_lib.data_fingerprint(config)), np.int64(sharing.agent))
  writer = functools.partial(queue_lib.UnrollWriter, address, spec, tables,
                             stamp, sharing.replay_address)
  if config.chain_unrolls is None:
    return writer()
  chains = episodes.Chains(
      config.chain_unrolls, sizing.fitted(config.actor.num_envs))
  return writer(chains.add, chains.num_kept)


def make_batches(config: config_lib.Config, spec: types.Unroll, address: str,
                 refusals: unroll_filter.Refusals | None = None,
                 sharing: control_lib.Sharing = control_lib.NOT_SHARED,
                 recompute: episodes.RecomputeFn | None = None,
                 first_version: int | None = None) -> Iterable[types.Unroll]:
  """Makes the batches that a learner reads; see `batches.make_batches`.

  For `recompute` see `sources.EpisodeReplay`. `first_version` is that of the
  first batch's unrolls, if actors wait for each update: batch i has those of
  version `first_version` + i.
  """
  packed = packing.Packing(spec)
  fingerprint = config_lib.data_fingerprint(config)
  # Between processes the order is random anyway. If actors wait for the update,
  # one sampler reads as fast as they play.
  in_order = config.experiment.in_process or first_version is not None
  agent = None if sharing.replay_address is None else sharing.agent
  replay: sources.UniformReplay | None = None
  if config.num_replayed:
    parts = sampling.Source(sharing.replay_address or address, queue_lib.REPLAY,
                            config.num_replayed, in_order), packed, fingerprint
    if config.chain_unrolls is not None:
      replay = sources.EpisodeReplay(*parts, recompute)
    elif config.has_priorities:
      replay = sources.PrioritisedReplay(
          *parts, config.replay.priority_correction)
    elif agent is not None:
      replay = sources.SharedReplay(*parts, agent, refusals)
    else:
      replay = sources.UniformReplay(*parts)
  is_taken = unroll_filter.refusing(
      packed, fingerprint, refusals, agent,
      # A2C has no spare for an unroll that is not finite: it skips the update.
      must_be_finite=first_version is None)
  if first_version is not None:
    is_taken = unroll_filter.of_one_version(
        packed, is_taken, first_version, config.num_fresh, refusals)
  return batches_lib.make_batches(
      sampling.Source(address, queue_lib.QUEUE, config.num_fresh, in_order),
      packed, is_taken, replay.join if replay else None)


def make_publisher(config: config_lib.Config, address: str,
                   learner: learner_lib.Learner, frames_per_update: int,
                   memory: parameter_memory.Memory | None) -> weights.Publisher:
  """Makes the publisher of a restored learner's parameters.

  `frames_per_update` is in environment frames; `memory` is for peers here.
  """
  table = weights.Table(address)
  lag_updates, is_late = config.actor.controlled_lag_updates, False
  if not config.experiment.in_process:
    destinations = weights.in_other_processes(
        table, memory, config.actor.synchronisation != 'none')
  elif lag_updates is not None:  # Needs a snapshot of every version.
    destinations = [weights.delayed(table.write, lag_updates)]
  else:
    destinations, is_late = [table.write], True
  # Counted from here on: the config may have been different before.
  version, frames = (int(variable.numpy()) for variable in (
      learner.num_updates, learner.num_frames))
  return weights.Publisher(
      weights.make_snapshot(learner.agent.published_variables),
      weights.frames_from(version, frames, frames_per_update),
      destinations, is_late)
