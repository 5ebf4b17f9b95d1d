"""The table of learning algorithms: one file and one row each.

Importing it imports no TensorFlow, so that launchers can look a name up.
"""

import importlib
from typing import Any, Dict

from impala_tf import config as config_lib

# From `ExperimentConfig.algorithm` to the module with its `ALGORITHM`.
ROWS: Dict[str, str] = {
    'impala': 'impala_tf.algorithms.impala',
    'impala_popart': 'impala_tf.algorithms.impala_popart',
}


def check(name: str) -> None:
  """Raises ConfigError where the table has no algorithm of this name."""
  if name not in ROWS:
    raise config_lib.ConfigError(
        f'ExperimentConfig.algorithm must be one of {", ".join(ROWS)}, but is '
        f'{name!r}')


def get(name: str) -> Any:
  """Imports an algorithm.

  Args:
    name: see `ExperimentConfig.algorithm`.

  Returns:
    Its `algorithm.Algorithm`.

  Raises:
    ConfigError: where the table has none of this name.
  """
  check(name)
  return importlib.import_module(ROWS[name]).ALGORITHM
