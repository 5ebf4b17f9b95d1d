"""Directories of runs as training leaves them behind, without training."""

from impala_tf import checkpoint
from impala_tf import config as config_lib
from impala_tf import experiment
from impala_tf import replicas
from impala_tf import training
from launch import gin_config

NUM_FRAMES = 4321  # That the agent is said to have learned from.


def make(run_dir, level, **sections):
  """Puts config and checkpoint there; returns the directory."""
  config = config_lib.Config(
      environment=config_lib.EnvironmentConfig(level=level), **sections)
  environment = experiment.make_environment(config, 1, 0, training=True)
  learner = experiment.make_learner(
      config, environment, replicas.alone().strategy)
  learner.num_frames.assign(NUM_FRAMES)
  (run_dir / 'config.gin').write_text(gin_config.dumps(config))
  checkpoint.describe_agent(
      str(run_dir), learner.agent.distribution,
      environment.observation_spec(), config.agent)
  checkpoint.Checkpointer(
      str(run_dir), 2, agent=learner.agent, learner=learner,
      totals=training.Totals()).save(7)
  environment.close()
  return run_dir
