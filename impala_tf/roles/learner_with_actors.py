"""IMPALA's architecture: a learner with its queue, and actors that feed it.

Section 3 of Espeholt et al. 2018. Several learners may update together.
"""

import contextlib
from typing import Callable

from impala_tf import config as config_lib
from impala_tf.comms import config_table
from impala_tf.core import actor as actor_lib
from impala_tf.core import experiment
from impala_tf.core import transport
from impala_tf.core import weights
from impala_tf.envs import env_processes
from impala_tf.roles import batched_a2c
from impala_tf.roles import dynamic_batching_actor
from impala_tf.roles import learner_parts
from impala_tf.roles import learning
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import cores
from impala_tf.runtime import interfaces
from impala_tf.runtime import learner_group
from impala_tf.runtime import precision
from impala_tf.runtime import sizing
from impala_tf.runtime import stop_signals

AnyActor = actor_lib.Actor | dynamic_batching_actor.DynamicActor


def run_learner(config: config_lib.Config, endpoint: control_lib.Endpoint,
                control: control_lib.LoopControl, reports: interfaces.Reports,
                join: Callable[[], learner_group.Learners] =
                learner_group.alone) -> bool:
  """Runs the learner's process, with Reverb; returns whether the run is done.

  `join` waits for all learners of the run, and returns them. Raises PeerLost if
  another learner has gone, and as `learner_parts.make` does.
  """
  sizing.set_threads(sizing.fitted(sizing.fit(config).learner.num_threads))
  learners = join()
  with learners.noticing_loss():
    parts = learner_parts.make(config, endpoint, learners)
    return learning.learn(parts, learning.batches(parts, control), reports)


def start_actor(config: config_lib.Config, address: str, seed: int, task: int,
                control: control_lib.ActorControl,
                sharing: control_lib.Sharing, run_table: str | None = None
                ) -> AnyActor:
  """Waits for the learner, and makes an actor with the learner's parameters.

  `config` has numbers for all options that were left to the machine. For the
  other arguments and errors see `run_actor`, for `run_table` `weights.Fetcher`.
  """
  environment_seed, policy_seed = experiment.make_seeds(
      config.experiment.seed, seed)
  control.wait_for_learner()  # It has closed its own environment by then.
  with contextlib.ExitStack() as stack:
    environment = experiment.make_actor_environment(
        config, environment_seed, task)
    stack.callback(environment.close)
    agent = experiment.make_agent(
        config, environment, precision.of_actor(config))
    fetcher = weights.Fetcher(address, agent.published_variables, run_table,
                              config.actor.fetch_interval_unrolls)
    fetcher.wait(control.poll)
    source: interfaces.Fetcher = fetcher
    if is_synchronous := config.actor.synchronisation != 'none':
      source = batched_a2c.NewerFetcher(fetcher)
    spec = experiment.make_unroll_spec(config, environment, agent)
    writer = transport.make_writer(config, address, spec, task, sharing)
    actor: AnyActor
    if isinstance(environment, env_processes.Workers):
      actor = (dynamic_batching_actor.SynchronousDynamicActor if is_synchronous
               else dynamic_batching_actor.DynamicActor)(
                   agent, environment, writer, source, spec, policy_seed)
    else:
      actor = actor_lib.Actor(agent, environment, writer, source, spec,
                              policy_seed, acts_anew=is_synchronous)
    stack.pop_all()  # The actor closes it.
    return actor


def run_actor(config: config_lib.Config, address: str, seed: int, task: int,
              control: control_lib.ActorControl,
              sharing: control_lib.Sharing = control_lib.NOT_SHARED,
              core: int | None = None) -> None:
  """Runs an actor's process, which plays until KeyboardInterrupt.

  Args:
    address: 'host:port' of the learner's server.
    seed: another for each actor of a run, and after an actor's death.
    task: number of the actor, 0 to `ActorConfig.num_actors` - 1. It decides
      which of several levels are played.
    core: number of the core that the process stays on; None: any.

  Raises ConnectionError if the learner does not answer, or has another config;
  ConfigError if it plays by itself.
  """
  if config.learner_plays:
    raise config_lib.ConfigError(
        "with ActorConfig.synchronisation = 'step' the learner plays by "
        'itself; start no actors')
  run_table = config_table.table_name(config)
  config = sizing.fit(config)  # This counts the cores.
  if core is not None:  # Before TensorFlow starts its threads.
    cores.stay_on(core)
  sizing.set_threads(1)
  actor = start_actor(config, address, seed, task, control, sharing, run_table)
  with stop_signals.Closing(actor):
    while True:
      actor.run_unroll()
      control.on_unroll(actor.stopwatch.secs)
