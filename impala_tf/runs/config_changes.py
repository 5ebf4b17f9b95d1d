"""Changes of a run's config between its stop and its resumption.

How an agent learns and how the run is operated may change. The game, network,
algorithm and seed may not: parameters, returns and the best checkpoint would
mean something else, or could not be read.
"""

from impala_tf import config as config_lib
from impala_tf.runs import gin_config

# Sections of which everything may change, but for `_FIXED`. New sections and
# those of environments and networks are left out: nothing of them may.
_OPEN_SECTIONS = ('ActorConfig', 'ExperimentConfig', 'ImpalaConfig',
                  'LaserConfig', 'LearnerConfig', 'OptimizerConfig',
                  'ReplayConfig')
_FIXED = ('ExperimentConfig.algorithm', 'ExperimentConfig.seed',
          'LearnerConfig.num_learners', 'OptimizerConfig.bias_correction')
# Where these files are may differ between machines.
_OPEN = ('DmlabConfig.dataset_path', 'DmlabConfig.level_cache_dir')
# Options that a replay on disk depends on.
_OF_SAVED_REPLAY = (
    'LearnerConfig.unroll_length', 'ReplayConfig.capacity_unrolls',
    'ReplayConfig.episode_unrolls', 'ReplayConfig.priority_exponent',
    'ReplayConfig.replay_fraction', 'ReplayConfig.sampling',
    'ReplayConfig.survives_resume')


def check(old: config_lib.Config, new: config_lib.Config) -> None:
  """Raises ConfigError if a run cannot resume with these changes."""
  refused = [difference for difference in gin_config.differences(old, new)
             if not _may_change(difference.partition(' ')[0], old)]
  if (old.optimizer.max_gradient_norm is None) != (
      new.optimizer.max_gradient_norm is None):
    refused.append('OptimizerConfig.max_gradient_norm to or from None')
  if refused:
    raise config_lib.ConfigError(
        f'these cannot change within a run: {", ".join(refused)}; leave them '
        'as they are, or begin another run with --init_from')


def _may_change(name: str, old: config_lib.Config) -> bool:
  """Returns whether a value, 'Section.option', may change."""
  if old.num_replayed and old.replay.survives_resume and (
      name in _OF_SAVED_REPLAY):
    return False
  return name in _OPEN or (
      name.partition('.')[0] in _OPEN_SECTIONS and name not in _FIXED)
