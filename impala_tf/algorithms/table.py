"""The table of learning algorithms: one file and one row each.

Importing it imports no TensorFlow, so that launchers can look a name up.
"""

import importlib
from typing import Any, Callable, Dict, NamedTuple

from impala_tf import config as config_lib


def _check_nothing(config: config_lib.Config) -> None:
  """Takes any config."""
  del config


def _check_without_popart(config: config_lib.Config) -> None:
  """Raises ConfigError where a knob of PopArt would have no effect."""
  if config.impala.popart_step_size is not None:
    raise config_lib.ConfigError(
        f'ImpalaConfig.popart_step_size is {config.impala.popart_step_size}, '
        "but ExperimentConfig.algorithm is 'impala'; set that to "
        "'impala_popart', or popart_step_size to None")


def _check_with_popart(config: config_lib.Config) -> None:
  """Raises ConfigError where PopArt has no step size."""
  if config.impala.popart_step_size is None:
    raise config_lib.ConfigError(
        "ExperimentConfig.algorithm = 'impala_popart' needs "
        'ImpalaConfig.popart_step_size; 3e-4 is the published one')


class Row(NamedTuple):
  """A row of the table.

  Attributes:
    module: name of the module that has the algorithm's `ALGORITHM`.
    check: raises ConfigError for a config that the algorithm cannot have.
  """
  module: str
  check: Callable[[config_lib.Config], None] = _check_nothing


# Keys are values of `ExperimentConfig.algorithm`.
ROWS: Dict[str, Row] = {
    'impala': Row('impala_tf.algorithms.impala', _check_without_popart),
    'impala_popart': Row(
        'impala_tf.algorithms.impala_popart', _check_with_popart),
}


def check(config: config_lib.Config) -> None:
  """Refuses a config whose algorithm cannot train it; imports no TensorFlow.

  Args:
    config: config of a run.

  Raises:
    ConfigError: where the table has no such algorithm, or the algorithm cannot
      have such a config.
  """
  name = config.experiment.algorithm
  if name not in ROWS:
    raise config_lib.ConfigError(
        f'ExperimentConfig.algorithm must be one of {", ".join(ROWS)}, but is '
        f'{name!r}')
  ROWS[name].check(config)


def get(config: config_lib.Config) -> Any:
  """Imports the algorithm of a run; returns its `algorithm.Algorithm`.

  Raises:
    ConfigError: see `check`.
  """
  check(config)
  row = ROWS[config.experiment.algorithm]
  return importlib.import_module(row.module).ALGORITHM
