"""A new run's first checkpoint, made of another run's parameters."""

from typing import List

from impala_tf import config as config_lib
from impala_tf.agents import saved
from impala_tf.agents import transfer
from impala_tf.core import experiment
from impala_tf.roles import learner_state
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing
from impala_tf.storage import checkpoint


def write_first_checkpoint(config: config_lib.Config, run_dir: str,
                           source_dir: str, which: checkpoint.Which
                           ) -> List[str]:
  """Writes a checkpoint of no updates, from which the run is then resumed.

  Counts, totals, hyper-parameters and the optimiser's slots are those of a new
  run. It begins from the run or exported agent in `source_dir`; for `which` see
  `checkpoint.find`. Returns lines that say which parameters were taken, and
  which start fresh. Raises UserError if they do not fit, or there are none.
  """
  source = saved.load_agent(source_dir, which)
  config = sizing.fit(config)
  environment = experiment.make_probe_environment(config)
  state = learner_state.make(
      config, environment, learner_group.alone().strategy)
  learner = state.learner
  transfer.check(source, environment.observation_spec(),
                 learner.agent.num_features, config.agent,
                 environment.interface())
  lines = transfer.take_parameters(learner.agent, source.agent)
  saved.describe_agent(run_dir, learner.agent, environment.observation_spec(),
                       config.agent, environment.interface())
  state.configured.take_changes(learner.hyperparameters)
  state.checkpointer(config, run_dir).save(0)
  return [f'parameters of {source.checkpoint} in {source_dir} '
          f'({source.num_frames:,d} frames)', *lines]
