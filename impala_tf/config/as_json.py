"""Configs as text that other machines can read.

JSON and not gin, because it comes over a network: reading it can do nothing but
fill in the dataclasses of `config.py`. Standard library only.
"""

import dataclasses
import json
from typing import Any, Mapping

from impala_tf import config as config_lib


def dumps(config: config_lib.Config) -> str:
  """Writes every value; the same text for equal configs."""
  return json.dumps(dataclasses.asdict(config), sort_keys=True)


def loads(text: str) -> config_lib.Config:
  """Reads a config that `dumps` has written.

  Raises ConfigError unless the text is that of a config of this version.
  """
  try:
    values = json.loads(text)
  except ValueError as error:
    raise config_lib.ConfigError(f'this is no config ({error})') from error
  _check_names('', dataclasses.fields(config_lib.Config), values)
  sections = {}
  for name, section in config_lib.sections().items():
    _check_names(f'{section.__name__}.', dataclasses.fields(section),
                 values[name])
    sections[name] = section(**values[name])
  return config_lib.Config(**sections)


def _check_names(prefix: str, fields: Any, values: Mapping[str, Any]) -> None:
  """Raises ConfigError unless there is a value for each field."""
  names = {field.name for field in fields}
  if not isinstance(values, dict):
    raise config_lib.ConfigError(f'this is no config, but {values!r}')
  for name in sorted(names ^ values.keys()):
    raise config_lib.ConfigError(
        f'the config is of another version of impala_tf: {prefix}{name} is '
        f'{"missing" if name in names else "unknown"}; install the same '
        'version on all machines')
