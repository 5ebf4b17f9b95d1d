"""A3C's architecture: workers that share parameters, and one that keeps them.

Section 4 of Mnih et al. 2016 (arXiv:1602.01783v2). Actors are processes whose
workers play, learn, and change the parameters in memory of the learner's
process, which keeps them (`parameter_server`). Workers that cannot open this
memory, being on another machine, send their gradients to the learner
(`gradient_intake`). All are found, started and supervised as in IMPALA's
architecture (`actor_learner`).
"""

import functools
import time
from typing import Callable, Optional

import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.a3c import gradient_intake
from impala_tf.a3c import gradient_table
from impala_tf.a3c import links
from impala_tf.a3c import optimizers
from impala_tf.a3c import store as store_lib
from impala_tf.a3c import worker as worker_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.comms import config_table
from impala_tf.comms import reverb_calls
from impala_tf.core import experiment
from impala_tf.core import learner as learner_lib
from impala_tf.core import loop
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.roles import a3c_learner
from impala_tf.roles import learner_parts
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import cores
from impala_tf.runtime import interfaces
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing
from impala_tf.runtime import tf_threads

_POLL_SECS = 0.05
# Updates in a row of a run in one process, where means over a stretch of time
# would differ between runs.
_UPDATES_A_ROW = 100


def run_learner(config: config_lib.Config, place: learner_parts.Place,
                control: control_lib.LoopControl,
                reports: interfaces.Reports = interfaces.NO_REPORTS,
                join: Callable[[], learner_group.Learners] =
                learner_group.alone) -> bool:
  """Runs the learner's process; see `actor_learner.run_learner`."""
  del join  # It is the only one.
  tf_threads.set_threads(1)
  parts = a3c_learner.make(config, place.run_dir)
  variables = parts.server.agent.published_variables
  server = queue_lib.make_server(
      [*weights.make_tables(variables),
       # It stays empty: workers need no more than its name.
       reverb.Table.queue(parts.store.table_name, max_size=1),
       gradient_table.make_table(parts.store.parameters.size),
       config_table.make_table(config)], place.port)
  address = f'localhost:{server.port}'
  config_table.publish(address, config)
  publisher = a3c_learner.make_publisher(parts.store, address)
  store = store_lib.find([parts.store.table_name])
  intake = gradient_intake.Intake(
      address, store, _make_applier(config, store), publisher,
      config.experiment.total_frames)
  reader = parts.reader(_POLL_SECS, intake.check)
  return parts.learn(
      loop.read(reader, control), reports, a3c_learner.SeldomPublisher(
          publisher, store.counts.num_updates),
      config.experiment.log_interval_secs)


def _make_applier(config: config_lib.Config,
                  store: store_lib.Store) -> links.Applier:
  """Makes the applier of gradients to the shared parameters."""
  optimizer, options = config.optimizer, config.asynchronous
  return links.Applier(
      store,
      optimizers.make(options.optimizer, optimizer.decay, optimizer.epsilon),
      links.Settings(
          optimizer.learning_rate, optimizer.annealed,
          config.experiment.total_frames, options.target_interval_frames))


def _find_store(config: config_lib.Config, address: str
                ) -> Optional[store_lib.Store]:
  """Opens the learner's memory; None if gradients are to be sent instead.

  Raises ConnectionError if the learner does not answer, or has another config;
  ConfigError if its memory is needed and cannot be opened.
  """
  tables = reverb_calls.server_info(reverb.Client(address))
  if config_table.table_name(config) not in tables:
    raise ConnectionError('the learner there is of another config now')
  if not config.asynchronous.share_memory:
    return None
  store = store_lib.find(tables)
  if store is None and algorithms.get(config).needs_target_agent:
    raise config_lib.ConfigError(
        f'the memory of the learner at {address} cannot be opened: actors of '
        f'{config.experiment.algorithm!r} share its target network there, so '
        "they run on its machine, in its container, as its user; only those of "
        "'a3c' run anywhere")
  return store


MakeLinkFn = Callable[
    [agent_lib.Agent, Optional[agent_lib.Agent]], links.Link]


def _memory_link(config: config_lib.Config,
                 store: store_lib.Store) -> MakeLinkFn:
  """Returns a function from agent and target agent to their link."""
  applier = _make_applier(config, store)
  return lambda agent, target_agent: links.MemoryLink(
      store, agent, applier, target_agent)


def _table_link(config: config_lib.Config, address: str,
                control: control_lib.ActorControl) -> MakeLinkFn:
  """Returns a function from an agent, without a target, to its link."""

  def make(agent, target_agent):
    del target_agent  # See `_find_store`.
    fetcher = weights.Fetcher(address, agent.published_variables,
                              config_table.table_name(config))
    fetcher.wait(control.poll)
    return gradient_table.TableLink(address, fetcher)

  return make


def make_workers(config: config_lib.Config, make_link: MakeLinkFn,
                       task: int, num_processes: int, seed: int
                       ) -> worker_lib.WorkersInTurn:
  """Makes the workers of process `task` among `num_processes`.

  `make_link` makes the link of agent and target agent. `seed` differs between
  the processes of a run, and from that of a process which has died.
  """
  algorithm = algorithms.get(config)
  # One after another: emulators that are made at once crash.
  numbers = range(task, sizing.num_workers(config, num_processes),
                  num_processes)
  seeds = [experiment.make_seeds(config.experiment.seed, seed, number)
           for number in numbers]
  environments = [
      experiment.make_environment(config, 1, environment_seed, training=True)
      for environment_seed, _ in seeds]
  agent = experiment.make_agent(config, environments[0])
  loss = functools.partial(
      algorithm.loss, config=config,
      hyperparameters=hyperparameters_lib.Hyperparameters(config))
  target_agent = None
  if algorithm.needs_target_agent:
    target_agent = experiment.make_agent(config, environments[0])
    loss = functools.partial(loss, target_agent=target_agent)
  options = config.asynchronous
  num_slots = optimizers.num_slots(options.optimizer, options.num_workers)
  workers = [
      worker_lib.Worker(f'worker {number} of actor {task}', number % num_slots,
                        environment, agent.initial_state(1), worker_seed)
      for number, environment, (_, worker_seed) in zip(
          numbers, environments, seeds)]
  return worker_lib.WorkersInTurn(
      make_link(agent, target_agent), agent, workers,
      functools.partial(learner_lib.compute_gradients, agent, loss),
      worker_lib.Settings(
          config.optimizer.max_gradient_norm, options.max_segment_steps,
          options.epsilon_anneal_frames),
      experiment.make_seeds(config.experiment.seed, seed)[1],
      explores=target_agent is not None,
      keeps_last_action=algorithm.needs_last_action)


def _check_processes(config: config_lib.Config, task: int,
                     num_processes: int) -> None:
  """Raises ConfigError if a process has no workers, or they no slots."""
  if task >= num_processes:
    raise config_lib.ConfigError(
        f'there is no actor {task}: the workers are in actors 0 to '
        f'{num_processes - 1}; set ActorConfig.num_actors to have more')
  # Checkpoints have the slots of the workers that are configured, however many
  # processes a machine has.
  options = config.asynchronous
  if optimizers.num_slots(options.optimizer, num_processes) > (
      optimizers.num_slots(options.optimizer, options.num_workers)):
    raise config_lib.ConfigError(
        f'AsyncConfig.optimizer = {options.optimizer!r} has a memory for each '
        f'of AsyncConfig.num_workers = {options.num_workers}, but '
        f'{num_processes} processes have a worker each at least; set '
        f'num_workers to {num_processes} or more, or ActorConfig.num_actors to '
        f'{options.num_workers} or fewer')


def run_actor(config: config_lib.Config, address: str, seed: int, task: int,
              control: control_lib.ActorControl,
              replay_address: Optional[str] = None,
              core: Optional[int] = None, agent_number: int = 0) -> None:
  """Runs a process of workers until it is killed.

  See `actor_learner.run_actor` for the arguments; nothing is replayed.

  Raises:
    ConnectionError: if the learner does not answer, has another config, or has
      gone.
    ConfigError: if the learner's memory is needed and cannot be opened, or if
      this process gets no workers, or the optimiser has fewer memories than
      there are processes.
  """
  del replay_address, agent_number
  num_processes = sizing.fit(config).actor.num_actors  # This counts the cores.
  _check_processes(config, task, num_processes)
  if core is not None:  # Before TensorFlow starts its threads.
    cores.stay_on(core)
  tf_threads.set_threads(1)
  control.wait_for_learner()
  store = _find_store(config, address)
  make_link = (_table_link(config, address, control) if store is None
               else _memory_link(config, store))
  workers = make_workers(config, make_link, task, num_processes, seed)
  try:
    # The table's calls raise by themselves.
    while store is None or store.is_there():
      if (store is not None and
          store.counts.num_frames >= config.experiment.total_frames):
        time.sleep(_POLL_SECS)  # The learner is about to end.
      else:
        workers.run_segment()
        control.on_unroll(workers.stopwatch.secs)
  finally:
    workers.close()
  raise ConnectionError('the learner has gone')


class _Player:
  """A `loop.Player` of workers' segments, many in a row."""

  def __init__(self, workers: worker_lib.WorkersInTurn, store: store_lib.Store,
               total_frames: int):
    self._workers = workers
    self._store = store
    self._total_frames = total_frames
    self._num_played = 0

  def lacks(self, num_batches: int) -> bool:
    return (self._num_played < num_batches * _UPDATES_A_ROW and
            self._store.counts.num_frames < self._total_frames)

  def play(self) -> None:
    self._workers.run_segment()
    self._num_played += 1


def run_in_process(config: config_lib.Config, run_dir: str,
                   control: control_lib.LoopControl,
                   reports: interfaces.Reports = interfaces.NO_REPORTS) -> bool:
  """Has all workers take turns in this process: the same numbers every time.

  `run_dir` exists; its checkpoints are resumed from. Returns whether the run is
  done.
  """
  tf.config.experimental.enable_op_determinism()
  parts = a3c_learner.make(config, run_dir)
  # On resume, use a new seed.
  workers = make_workers(
      config, _memory_link(config, parts.store), task=0, num_processes=1,
      seed=parts.store.counts.num_updates)
  player = _Player(workers, parts.store, config.experiment.total_frames)
  try:
    return parts.learn(
        loop.play_then_learn(player, parts.reader(), control), reports)
  finally:
    workers.close()
