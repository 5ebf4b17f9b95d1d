"""The state that a run resumes from: making, restoring, saving, warm start."""

from typing import Any, Mapping, NamedTuple

from absl import logging
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.a3c import parameter_server
from impala_tf.agents import saved as saved_lib
from impala_tf.agents import transfer
from impala_tf.algorithms import table as algorithms
from impala_tf.comms import reverb_calls
from impala_tf.core import experiment
from impala_tf.envs import environment as environment_lib
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.pbt import member as member_lib
from impala_tf.runs import hparams
from impala_tf.runs import metrics as metrics_lib
from impala_tf.runs import training_log
from impala_tf.runtime import child
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing
from impala_tf.storage import checkpoint as checkpoint_lib
from impala_tf.suites import levels as levels_lib

POPULATION = 'population'  # Name in checkpoints of a member's state.


class State(NamedTuple):
  """All state that a run resumes from."""
  learner: Any  # Updates the parameters, or the parameter server of A3C.
  totals: training_log.Totals
  # The config's values of the hyper-parameters.
  configured: hyperparameters_lib.ConfiguredValues
  # State that only some runs have, by its name in checkpoints.
  others: Mapping[str, tf.Module]


def make(config: config_lib.Config,
         environment: environment_lib.BatchedEnvironment,
         strategy: tf.distribute.Strategy | None = None) -> State:
  """Makes the state of a new run; see `experiment.make_learner`.

  A3C's architecture has no strategy.
  """
  learner: Any
  num_levels = len(levels_lib.expand(config.environment.level))
  others: dict[str, tf.Module] = {}
  if algorithms.architecture(config) == algorithms.SHARED_PARAMETERS:
    learner = parameter_server.ParameterServer(config, environment)
    others['asynchronous'] = learner.memory
  else:
    learner = experiment.make_learner(config, environment, strategy)
    if config.population.member_names:
      others[POPULATION] = member_lib.State(num_levels)
  return State(
      learner, training_log.Totals(num_levels),
      hyperparameters_lib.ConfiguredValues(learner.hyperparameters), others)


def restore(config: config_lib.Config, run_dir: str, log_dir: str,
            environment: environment_lib.BatchedEnvironment, state: State,
            is_chief: bool = True) -> checkpoint_lib.Checkpointer:
  """Restores the newest checkpoint, if any; returns the checkpointer.

  Later rows in `log_dir` are dropped. Only the chief writes the run's files.
  Raises UserError if all checkpoints are damaged.
  """
  learner = state.learner
  if is_chief:
    saved_lib.describe_agent(run_dir, learner.agent,
                             environment.observation_spec(), config.agent,
                             environment.interface)
  checkpointer = checkpoint_lib.Checkpointer(
      run_dir, config.experiment.checkpoints_to_keep,
      # Runs of version 0.1.0, and first checkpoints of warm starts, have none.
      optional=('hyperparameters', 'configured', POPULATION),
      agent=learner.agent, learner=learner.saved, totals=state.totals,
      hyperparameters=learner.hyperparameters, configured=state.configured,
      **state.others)
  restored = checkpointer.restore(tidy=is_chief)
  state.configured.take_changes(learner.hyperparameters)
  frames = int(learner.num_frames.numpy())
  if restored:
    logging.info('Resuming from %s at %d frames', restored, frames)
    if is_chief and frames >= config.experiment.total_frames:
      child.remark(f'all {frames:,d} frames have been learned from; raise '
                   'ExperimentConfig.total_frames to go on')
    elif is_chief and config.experiment.stop_at_return is not None and (
        state.totals.best_return >= config.experiment.stop_at_return):
      child.remark('ExperimentConfig.stop_at_return was reached; raise it, or '
                   'set it to None, to go on')
  metrics_lib.drop_rows_after(log_dir, frames)
  if is_chief:
    hparams.write(log_dir, config, frames)
  return checkpointer


def save(checkpointer: checkpoint_lib.Checkpointer,
         client: reverb.Client | None, is_chief: bool, number: int,
         score: float | None) -> None:
  """Saves a checkpoint and, unless None, the server's replay, as the chief."""
  if is_chief:
    # In this order: unrolls of the future would have a lag below 0.
    checkpointer.save(number, score)
    if client is not None:
      reverb_calls.save(client)


def write_first_checkpoint(config: config_lib.Config, run_dir: str,
                           source_dir: str, which: checkpoint_lib.Which
                           ) -> list[str]:
  """Writes the checkpoint of 0 updates from which a warm-started run resumes.

  Counts, totals, hyper-parameters and the optimiser's slots are those of a new
  run. It begins from the run or exported agent in `source_dir`; for `which` see
  `checkpoint.find`. Returns lines that say which parameters were taken, and
  which start fresh. Raises UserError if they do not fit, or there are none.
  """
  source = saved_lib.load_agent(source_dir, which)
  config = sizing.fit(config)
  environment = experiment.make_probe_environment(config)
  state = make(config, environment, learner_group.alone().strategy)
  learner = state.learner
  transfer.check(source, environment.observation_spec(), learner.agent,
                 config.agent, environment.interface)
  lines = transfer.take_parameters(learner.agent, source.agent)
  restore(config, run_dir, run_dir, environment, state).save(0)
  return [f'parameters of {source.checkpoint} in {source_dir} '
          f'({source.num_frames:,d} frames)', *lines]
