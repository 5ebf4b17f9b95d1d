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

  Raises ConfigError where the text is not that of a config, or of another
  version's with other options.
  """
  try:
    values = json.loads(text)
  except ValueError as error:
    raise config_lib.ConfigError(f'this is no config ({error})') from error
  fields = dataclasses.fields(config_lib.Config)
  _check_names('', fields, values)
  sections = {}
  for field in fields:
    section = values[field.name]
    _check_names(f'{field.type.__name__}.', dataclasses.fields(field.type),
                 section)
    sections[field.name] = field.type(**section)
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
