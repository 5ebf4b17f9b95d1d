"""A3C's actor process: its workers, and their link to the shared parameters."""

import contextlib
import functools
import time
from typing import Any, Callable

import reverb

from impala_tf import config as config_lib
from impala_tf.a3c import links
from impala_tf.a3c import store as store_lib
from impala_tf.a3c import worker as worker_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.comms import config_table
from impala_tf.comms import reverb_calls
from impala_tf.core import experiment
from impala_tf.core import learner as learner_lib
from impala_tf.core import weights
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import cores
from impala_tf.runtime import sizing
from impala_tf.runtime import stop_signals

_POLL_SECS = 0.05

# Makes the link of an agent and, for values, of the target agent.
MakeLinkFn = Callable[[agent_lib.Agent, agent_lib.Agent | None], links.Link]


def find_store(config: config_lib.Config, address: str
               ) -> store_lib.Store | None:
  """Opens the learner's shared memory; None if gradients go to its server."""
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


def make_workers(config: config_lib.Config, make_link: MakeLinkFn, task: int,
                 num_processes: int, seed: int) -> worker_lib.WorkersInTurn:
  """Makes the workers of process `task`; see `run_actor` for `seed`."""
  algorithm, options = algorithms.get(config), config.asynchronous
  num_slots = store_lib.num_slots(options.optimizer, options.num_workers)
  agent: Any = None
  workers = []
  with contextlib.ExitStack() as stack:
    # One after another: emulators that are made at once crash.
    for number in range(task, sizing.num_workers(config, num_processes),
                        num_processes):
      environment_seed, worker_seed = experiment.make_seeds(
          config.experiment.seed, seed, number)
      environment = experiment.make_environment(
          config, 1, environment_seed, training=True, first_slot=number)
      stack.callback(environment.close)
      agent = agent or experiment.make_agent(config, environment)
      workers.append(worker_lib.Worker(
          f'worker {number} of actor {task}', number % num_slots, environment,
          agent.initial_state(1), worker_seed))
    loss = functools.partial(
        algorithm.loss, config=config,
        hyperparameters=hyperparameters_lib.Hyperparameters(config).present())
    target_agent = None
    if algorithm.needs_target_agent:
      target_agent = experiment.make_agent(config, environment)
      loss = functools.partial(loss, target_agent=target_agent)
    in_turn = worker_lib.WorkersInTurn(
        config, make_link(agent, target_agent), agent, workers,
        functools.partial(learner_lib.compute_gradients, agent, loss),
        experiment.make_seeds(config.experiment.seed, seed)[1])
    stack.pop_all()  # They close them.
  return in_turn


def check_processes(config: config_lib.Config, task: int,
                    num_processes: int) -> None:
  """Raises ConfigError if `task` has no worker, or slots are too few."""
  if task >= num_processes:
    raise config_lib.ConfigError(
        f'there is no actor {task}: the workers are in actors 0 to '
        f'{num_processes - 1}; set ActorConfig.num_actors to have more')
  # Checkpoints have the slots of the workers that are configured, however many
  # processes a machine has.
  options = config.asynchronous
  if store_lib.num_slots(options.optimizer, num_processes) > (
      store_lib.num_slots(options.optimizer, options.num_workers)):
    raise config_lib.ConfigError(
        f'AsyncConfig.optimizer = {options.optimizer!r} has a memory for each '
        f'of AsyncConfig.num_workers = {options.num_workers}, but '
        f'{num_processes} processes have a worker each at least; set '
        f'num_workers to {num_processes} or more, or ActorConfig.num_actors to '
        f'{options.num_workers} or fewer')


def run_actor(config: config_lib.Config, address: str, seed: int, task: int,
              control: control_lib.ActorControl,
              sharing: control_lib.Sharing = control_lib.NOT_SHARED,
              core: int | None = None) -> None:
  """Runs a process of workers until KeyboardInterrupt.

  See `learner_with_actors.run_actor` for the arguments; nothing is replayed.
  Raises ConnectionError if the learner does not answer, has another config, or
  has gone; ConfigError as `find_store` and `check_processes` do.
  """
  del sharing
  # This counts the cores.
  num_processes = sizing.fitted(sizing.fit(config).actor.num_actors)
  check_processes(config, task, num_processes)
  if core is not None:  # Before TensorFlow starts its threads.
    cores.stay_on(core)
  sizing.set_threads(1)
  control.wait_for_learner()
  store = find_store(config, address)

  def make_link(agent, target_agent):
    if store is not None:
      return links.MemoryLink(config, store, agent, target_agent)
    fetcher = weights.Fetcher(address, agent.published_variables,
                              config_table.table_name(config), may_share=False)
    fetcher.wait(control.poll)
    return links.TableLink(address, fetcher)

  workers = make_workers(config, make_link, task, num_processes, seed)
  with stop_signals.Closing(workers):
    # The table's calls raise by themselves.
    while store is None or store.is_there():
      if (store is not None and
          store.counts.num_frames >= config.experiment.total_frames):
        time.sleep(_POLL_SECS)  # The learner is about to end.
      else:
        workers.run_segment()
        control.on_unroll(workers.stopwatch.secs)
  raise ConnectionError('the learner has gone')
