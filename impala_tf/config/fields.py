"""Options: fields of frozen dataclasses with ranges that are checked."""

import dataclasses
import math
import numbers
import operator
import typing
from typing import Any


class UserError(ValueError):
  """Error in a user's input; its message names cause and remedy in one line."""


class ConfigError(UserError):
  """Error in an option's value."""


def option(default: Any, *, at_least=None, at_most=None, above=None, below=None,
         choices=None, unit: str = '', source: str = ''):
  """Makes a field with a default and the range that `Section` checks.

  `unit` is that of a number whose name does not end with it. `source` is the
  place in the paper, or another named work; '' for options of this project.
  """
  return dataclasses.field(default=default, metadata=dict(
      at_least=at_least, at_most=at_most, above=above, below=below,
      choices=choices, unit=unit, source=source))


def _check_type(name: str, value: Any, hint: Any) -> Any:
  """Returns `value` (as float if `hint` is); ConfigError for another type."""
  if typing.get_args(hint):  # X | None
    if value is None:
      return None
    hint = next(h for h in typing.get_args(hint) if h is not type(None))
  is_bool = isinstance(value, bool)
  if hint is float and isinstance(value, numbers.Real) and not is_bool:
    return float(value)
  if isinstance(value, hint) and (hint is bool or not is_bool):
    return value
  remedy = ''
  if hint is int and isinstance(value, float) and value.is_integer():
    remedy = f'; write {value:.0f}'
  raise ConfigError(f'{name} must be of type {hint.__name__}, but is {value!r} '
                    f'({type(value).__name__}){remedy}')


def check_range(name: str, value: Any, **limits: Any) -> None:
  """Raises ConfigError if a value, unless None, is outside of limits.

  They are named as those of `option`.
  """
  if value is None:
    return
  choices = limits.get('choices')
  if choices is not None and value not in choices:
    raise ConfigError(
        f'{name} must be one of {", ".join(choices)}, but is {value!r}')
  checks = {'at_least': operator.ge, 'at_most': operator.le,
            'above': operator.gt, 'below': operator.lt}
  for word, holds in checks.items():
    limit = limits.get(word)
    if limit is not None and not holds(value, limit):  # A NaN fails here too.
      raise ConfigError(
          f'{name} must be {word.replace("_", " ")} {limit}, but is {value!r}')


def checked_data(name: str, value: Any) -> Any:
  """Checks plain data; returns a copy that gin and JSON write and read alike.

  Tuples become lists, and dicts are sorted. ConfigError for all but None, bool,
  finite numbers, strings, and lists, tuples or dicts of these by strings.
  """
  if isinstance(value, dict):
    for key in value:
      if not isinstance(key, str):
        raise ConfigError(f'{name} must have strings as its keys, but has '
                          f'{key!r}')
    return {key: checked_data(f'{name}[{key!r}]', value[key])
            for key in sorted(value)}
  if isinstance(value, (list, tuple)):
    return [checked_data(f'{name}[{i}]', element)
            for i, element in enumerate(value)]
  if value is not None and type(value) not in (bool, int, float, str):
    raise ConfigError(
        f'{name} must be data (numbers, strings, True, False, None, and lists '
        f'and dicts of these), but is of type {type(value).__name__}')
  if isinstance(value, float) and not math.isfinite(value):
    raise ConfigError(f'{name} must be finite, but is {value}')
  return value


class Section:
  """Base class of the config's sections; checks each field's type and range."""

  def __post_init__(self):
    hints = typing.get_type_hints(type(self))
    for field in dataclasses.fields(self):
      name = f'{type(self).__name__}.{field.name}'
      value = checked_data(name, _check_type(
          name, getattr(self, field.name), hints[field.name]))
      # Frozen, but an int becomes a float if one is wanted.
      object.__setattr__(self, field.name, value)
      check_range(name, value, **field.metadata)
