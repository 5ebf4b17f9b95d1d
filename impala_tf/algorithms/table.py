"""The table of learning algorithms: a row for each; a file may have several.

`register` adds the user's own. Importing this module imports no TensorFlow, so
that launchers can look a name up.
"""

import importlib
from typing import Any, Callable, NamedTuple

from impala_tf import config as config_lib
from impala_tf.runtime import user_modules
from impala_tf.suites import levels as levels_lib


def _check_without_popart(config: config_lib.Config) -> None:
  if config.impala.popart_step_size is not None:
    raise config_lib.ConfigError(
        f'ImpalaConfig.popart_step_size is {config.impala.popart_step_size}, '
        "but ExperimentConfig.algorithm is 'impala'; set that to "
        "'impala_popart', or popart_step_size to None")


def _check_with_popart(config: config_lib.Config) -> None:
  if config.impala.popart_step_size is None:
    raise config_lib.ConfigError(
        "ExperimentConfig.algorithm = 'impala_popart' needs "
        'ImpalaConfig.popart_step_size; 3e-4 is the published one')


def _check_laser(config: config_lib.Config) -> None:
  if config.impala.correction != 'vtrace':
    raise config_lib.ConfigError(
        "ExperimentConfig.algorithm = 'laser' is a trust region for V-trace, "
        f'but ImpalaConfig.correction is {config.impala.correction!r}; set it '
        "to 'vtrace', or the algorithm to 'impala'")
  if config.laser.trust_region == 'implied' and (
      not config.impala.clip_rho_threshold):
    raise config_lib.ConfigError(
        "LaserConfig.trust_region = 'implied' needs clipped ratios, but "
        'ImpalaConfig.clip_rho_threshold is '
        f"{config.impala.clip_rho_threshold}; set it above 0, or the region to "
        "'behaviour'")


# Sections and options that workers cannot have: they share parameters, and each
# learns from its own newest steps.
_OPTIONS_OF_LEARNERS = {
    'replay': ('replay_fraction',),
    'actor': ('env_processes', 'synchronisation', 'fetch_interval_unrolls',
              'controlled_lag_updates'),
    'environment': ('episode_metrics',),
    'learner': ('precision', 'num_learners'),
    'impala': ('popart_step_size', 'entropy_annealed_to'),
    'agent': ('normalise_observations',),
    'optimizer': ('momentum', 'bias_correction', 'annealed_share'),
    'population': ('members',),
}


def _check_asynchronous(config: config_lib.Config) -> None:
  if len(levels_lib.expand(config.environment.level)) > 1:
    raise config_lib.ConfigError(
        'EnvironmentConfig.level must be a single level with '
        f'ExperimentConfig.algorithm = {config.experiment.algorithm!r}')
  for section_name, options in _OPTIONS_OF_LEARNERS.items():
    section = getattr(config, section_name)
    for option in options:
      default = getattr(type(section)(), option)
      if getattr(section, option) not in (default, 'auto'):
        raise config_lib.ConfigError(
            f'{type(section).__name__}.{option} is not for ExperimentConfig.'
            f'algorithm = {config.experiment.algorithm!r}, whose workers share '
            f'their parameters; set it to {default!r}, or leave it out')
  if config.experiment.in_process and not config.asynchronous.share_memory:
    raise config_lib.ConfigError(
        'with ExperimentConfig.in_process nobody sends gradients; set '
        'AsyncConfig.share_memory to True, or leave it out')


def _check_asynchronous_values(config: config_lib.Config) -> None:
  _check_asynchronous(config)
  if not config.asynchronous.share_memory:
    raise config_lib.ConfigError(
        f'ExperimentConfig.algorithm = {config.experiment.algorithm!r} has a '
        'target network in memory that its workers share; set '
        "AsyncConfig.share_memory to True, or the algorithm to 'a3c'")


def _check_a3c(config: config_lib.Config) -> None:
  _check_asynchronous(config)
  if config.impala.correction != 'none':
    raise config_lib.ConfigError(
        f'ExperimentConfig.algorithm = {config.experiment.algorithm!r} has '
        'the policy that acted learn, and nothing to correct for, but '
        f'ImpalaConfig.correction is {config.impala.correction!r}; set it to '
        "'none'")


CheckFn = Callable[[config_lib.Config], None]

# Who plays and who learns: actors and a learner, or workers that do both.
LEARNER_WITH_ACTORS = 'learner_with_actors'
SHARED_PARAMETERS = 'shared_parameters'


class Row(NamedTuple):
  """A row of the table: an algorithm's loader, config check, architecture."""
  # Returns the `algorithm.Algorithm`; may import TensorFlow.
  load: Callable[[], Any]
  # Raises ConfigError for a config that the algorithm cannot have.
  check: CheckFn = lambda config: None
  # The module of `roles` in which it learns, one of the two above.
  architecture: str = LEARNER_WITH_ACTORS


def _in_module(name: str, constant: str = 'ALGORITHM') -> Callable[[], Any]:
  return lambda: getattr(
      importlib.import_module(f'impala_tf.algorithms.{name}'), constant)


# Keys are values of `ExperimentConfig.algorithm`.
ROWS: dict[str, Row] = {
    'impala': Row(_in_module('impala'), _check_without_popart),
    'impala_popart': Row(_in_module('impala_popart'), _check_with_popart),
    'laser': Row(_in_module('laser'), _check_laser),
    'a3c': Row(_in_module('impala'), _check_a3c, SHARED_PARAMETERS),
    'a3c_continuous': Row(
        _in_module('impala', 'A3C_CONTINUOUS'), _check_a3c, SHARED_PARAMETERS),
    'one_step_q': Row(
        _in_module('async_q'), _check_asynchronous_values, SHARED_PARAMETERS),
    'one_step_sarsa': Row(_in_module('async_q', 'SARSA'),
                          _check_asynchronous_values, SHARED_PARAMETERS),
    'n_step_q': Row(
        _in_module('async_q'), _check_asynchronous_values, SHARED_PARAMETERS),
}


def register(name: str, algorithm: Any,
             check_config: CheckFn = lambda config: None) -> None:
  """Adds a user's `algorithm.Algorithm` to the table.

  `name` is the new value of `ExperimentConfig.algorithm`; `check_config` raises
  ConfigError for a config that the algorithm cannot have. Raises ConfigError if
  the name is taken, or `algorithm` is something else.
  """
  from impala_tf.algorithms import algorithm as algorithm_lib  # TensorFlow.
  if name in ROWS:
    raise config_lib.ConfigError(
        f'there is an algorithm {name!r} already; choose another name')
  if not isinstance(algorithm, algorithm_lib.Algorithm) or (
      algorithm.needs_target_agent or algorithm.needs_last_action):
    raise config_lib.ConfigError(
        f'the algorithm {name!r} must be an algorithm.Algorithm(make_agent, '
        f'loss, after_step) and needs nothing else, but is {algorithm!r}')
  ROWS[name] = Row(lambda: algorithm, check_config)
  user_modules.note_registration('ExperimentConfig.algorithm', name)


def check(config: config_lib.Config) -> None:
  """Raises ConfigError if an algorithm is unknown or rejects the config."""
  name = config.experiment.algorithm
  if name not in ROWS:
    raise user_modules.unknown_name('ExperimentConfig.algorithm', name, ROWS)
  ROWS[name].check(config)


def get(config: config_lib.Config) -> Any:
  """Returns a run's `algorithm.Algorithm`; raises ConfigError as `check`."""
  check(config)
  return ROWS[config.experiment.algorithm].load()


def architecture(config: config_lib.Config) -> str:
  """Names the architecture of a run's algorithm; raises as `check` does."""
  check(config)
  return ROWS[config.experiment.algorithm].architecture
