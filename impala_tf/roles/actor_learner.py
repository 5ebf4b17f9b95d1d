"""IMPALA's architecture: a learner with its queue, and actors that feed it.

Section 3 of Espeholt et al. 2018: actors play with parameters that may be a few
updates old and send unrolls; the learner, or several that update together,
learns from batches of them.
"""

from typing import Callable, Mapping, Optional, Sequence

import reverb

from impala_tf import config as config_lib
from impala_tf.comms import config_table
from impala_tf.comms import reverb_calls
from impala_tf.core import dynamic_batching_actor
from impala_tf.core import experiment
from impala_tf.core import loop as loop_lib
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.roles import batched_a2c
from impala_tf.roles import learner_parts
from impala_tf.runs import profiling
from impala_tf.runs import skipped_updates
from impala_tf.runtime import cores
from impala_tf.runtime import host as host_lib
from impala_tf.runtime import learner_group
from impala_tf.runtime import precision
from impala_tf.runtime import sizing
from impala_tf.runtime import tf_threads


class _Gauges:
  """Columns that are read when a row is written."""

  def __init__(self, parts: learner_parts.LearnerParts,
               skipped: skipped_updates.SkippedUpdates):
    self._refusals = parts.refusals
    self._skipped = skipped
    self._link = parts.link
    self._tables = [queue_lib.QUEUE]
    if parts.config.num_replayed and parts.link is None:
      self._tables.append(queue_lib.REPLAY)
    self._client = reverb.Client(parts.address)

  def read(self) -> Mapping[str, float]:
    """Reads the columns; raises ConnectionError if the server is silent."""
    # Asked of the server: the tables that it was made of are not its own if it
    # restored any.
    row = {'unrolls_refused': self._refusals.total,
           'updates_skipped': self._skipped.total}
    infos = reverb_calls.server_info(self._client)
    tables = {name: infos[name] for name in self._tables}
    if self._link is not None:  # It may be away just now.
      tables[queue_lib.REPLAY] = self._link.infos[queue_lib.REPLAY]
    for name, info in tables.items():
      row[f'{name}_occupancy'] = info.current_size / info.max_size
    return row


def train(parts: learner_parts.LearnerParts, publisher: loop_lib.Publisher,
          log_interval_secs: float, log_interval_updates: int,
          host: host_lib.LearnerHost,
          callbacks: Sequence[loop_lib.Callback] = ()) -> bool:
  """Trains with a learner's parts; returns whether the run is done.

  Rows are `log_interval_secs` apart at least, and at multiples of
  `log_interval_updates` only. For the rest see `loop_lib.train`.
  """
  config = parts.config
  skipped = skipped_updates.SkippedUpdates(
      parts.log_dir, config.optimizer.max_skipped_updates)
  log = loop_lib.TrainingLog(
      parts.log_dir, log_interval_secs, log_interval_updates, parts.learner,
      parts.totals, parts.reader, config.num_fresh,
      _Gauges(parts, skipped).read, parts.level_log,
      parts.learners.concatenate)
  is_done = False
  try:
    is_done = loop_lib.train(
        config.experiment, parts.learner, parts.reader, publisher, parts.saver,
        log, skipped, host, callbacks)
    return is_done
  finally:
    if parts.link is not None:
      share = (int(parts.learner.num_frames.numpy())
               / config.experiment.total_frames)
      # Nobody waits for an agent that is done before its last frame.
      parts.link.report(1. if is_done else min(1., share))
      parts.link.close()


class _ProfilingHost(host_lib.LearnerHost):
  """A host that also records a profile."""

  def __init__(self, host: host_lib.LearnerHost, log_dir: str):
    self._profiler = profiling.LearnerProfiler(log_dir)
    self._host = host
    self.should_stop = host.should_stop
    self.on_wait = host.on_wait
    self.on_pause = host.on_pause
    self.on_row = host.on_row

  def before_batch(self) -> None:
    self._host.before_batch()
    self._profiler()


def run_learner(config: config_lib.Config, place: learner_parts.Place,
                host: host_lib.LearnerHost,
                join: Callable[[], learner_group.Learners] =
                learner_group.alone, profile: bool = False,
                callbacks: Sequence[loop_lib.Callback] = ()) -> bool:
  """Runs the learner's process, with Reverb; returns whether the run is done.

  It is not done if this learner or another was stopped. `join` waits for all
  learners of the run, and returns them. `profile`: whether to record a few
  updates for TensorBoard.

  Raises:
    OSError: if the port is taken.
    PeerLost: if another learner has gone.
    checkpoint.CheckpointError: if all checkpoints are damaged.
  """
  announced, config = config, sizing.fit(config)
  tf_threads.set_threads(config.learner.num_threads)
  learners = join()
  with learners.noticing_loss():
    parts = learner_parts.make(
        config, announced, place, config.learner.queue_capacity, learners,
        shares_memory=True)
    publisher = weights.make_publisher(
        parts.publisher, parts.memory, int(parts.learner.num_updates.numpy()))
    if parts.memory is not None and config.actor.synchronisation != 'none':
      host = batched_a2c.BarrierHost(host, publisher)
    if profile:
      host = _ProfilingHost(host, parts.log_dir)
    return train(parts, publisher, config.experiment.log_interval_secs,
                 log_interval_updates=1, host=host, callbacks=callbacks)


def start_actor(config: config_lib.Config, address: str, seed: int, task: int,
                host: host_lib.ActorHost, run_table: Optional[str] = None,
                replay_address: Optional[str] = None, agent_number: int = 0
                ) -> dynamic_batching_actor.AnyActor:
  """Makes an actor that holds the learner's parameters.

  `config` has numbers for all options that were left to the machine. For the
  other arguments and errors see `run_actor`, for `run_table` `weights.Fetcher`.
  """
  environment_seed, policy_seed = experiment.make_seeds(
      config.experiment.seed, seed)
  environment = experiment.make_actor_environment(
      config, environment_seed, task)
  agent = experiment.make_agent(
      config, environment, precision.of_actor(config))
  host.wait_for_learner()
  fetcher = weights.Fetcher(address, agent.published_variables, run_table,
                            config.actor.fetch_interval_unrolls)
  fetcher.wait(host.poll)
  if config.actor.synchronisation != 'none':
    fetcher = batched_a2c.NewerFetcher(fetcher)
  spec = experiment.make_unroll_spec(config, environment, agent)
  writer = experiment.make_writer(
      config, address, spec, task, replay_address, agent_number)
  return experiment.make_actor(
      config, agent, environment, writer, fetcher, spec, policy_seed)


def run_actor(config: config_lib.Config, address: str, seed: int, task: int,
              host: host_lib.ActorHost,
              replay_address: Optional[str] = None,
              core: Optional[int] = None, agent_number: int = 0) -> None:
  """Runs an actor's process, which plays until it is killed.

  Args:
    address: 'host:port' of the learner's server.
    seed: differs between the actors of a run, and from that of an actor which
      has died.
    task: number of the actor, 0 to `ActorConfig.num_actors` - 1. It decides
      which of several levels are played.
    replay_address: 'host:port' of the replay's server; None: the learner's.
    core: number of the core that the process stays on; None: any.
    agent_number: number of the agent among those that share the replay.

  Raises:
    ConnectionError: if the learner does not answer, or has another config.
    ConfigError: if the learner plays by itself.
  """
  if config.learner_plays:
    raise config_lib.ConfigError(
        "with ActorConfig.synchronisation = 'step' the learner plays by "
        'itself; start no actors')
  run_table = config_table.table_name(config)
  config = sizing.fit(config)  # This counts the cores.
  if core is not None:  # Before TensorFlow starts its threads.
    cores.stay_on(core)
  tf_threads.set_threads(1)
  actor = start_actor(
      config, address, seed, task, host, run_table, replay_address,
      agent_number)
  try:
    while True:
      actor.run_unroll()
      host.on_unroll(actor.stopwatch.secs)
  finally:
    actor.close()
