"""A new run's first checkpoint, made of another run's parameters."""

from typing import List

from impala_tf import config as config_lib
from impala_tf.a3c import parameter_server
from impala_tf.agents import saved
from impala_tf.agents import transfer
from impala_tf.algorithms import table as algorithms
from impala_tf.core import experiment
from impala_tf.core import loop as loop_lib
from impala_tf.optimizers import hyperparameters
from impala_tf.roles import learner_parts
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing
from impala_tf.storage import checkpoint
from impala_tf.suites import levels


def write_first_checkpoint(config: config_lib.Config, run_dir: str,
                           source_dir: str, which: checkpoint.Which
                           ) -> List[str]:
  """Writes a checkpoint of no updates, from which the run is then resumed.

  Counts, totals, hyper-parameters and the optimiser's slots are those of a new
  run.

  Args:
    run_dir: directory of the new run, which has no checkpoint.
    source_dir: directory of the run or exported agent to begin from.
    which: its checkpoint, see `checkpoint.find`.

  Returns lines that say which parameters were taken, and which start fresh.
  Raises UserError if the parameters do not fit, or there are none.
  """
  source = saved.load_agent(source_dir, which)
  config = sizing.fit(config)
  environment = experiment.make_probe_environment(config)
  if algorithms.architecture(config) == algorithms.SHARED_PARAMETERS:
    make_checkpointer = parameter_server.make_checkpointer
    learner = parameter_server.Keeper(config, environment)
  else:
    make_checkpointer = learner_parts.make_checkpointer
    learner = experiment.make_learner(
        config, environment, learner_group.alone().strategy)
  transfer.check(source, environment.observation_spec(),
                 learner.agent.num_features, config.agent)
  lines = transfer.take_parameters(learner.agent, source.agent)
  saved.describe_agent(run_dir, learner.agent, environment.observation_spec(),
                       config.agent)
  configured = hyperparameters.ConfiguredValues(learner.hyperparameters)
  configured.take_changes(learner.hyperparameters)
  make_checkpointer(
      config, run_dir, learner,
      loop_lib.Totals(len(levels.expand(config.environment.level))), configured
  ).save(0)
  environment.close()
  return [f'parameters of {source.checkpoint} in {source_dir} '
          f'({source.num_frames:,d} frames)', *lines]
