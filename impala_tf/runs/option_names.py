"""Names of sections and options, and the nearest to a misspelt one."""

import dataclasses
import difflib
from typing import Dict, Iterable, List, Optional, Tuple

from impala_tf import config as config_lib
from impala_tf.sweeps import plan as plan_lib

# Each section's options.
_OPTIONS: Dict[str, Tuple[str, ...]] = {
    section.__name__: tuple(field.name for field in dataclasses.fields(section))
    for section in (
        *config_lib.sections().values(), plan_lib.SweepConfig)}
_ALL_OPTIONS = tuple(
    option for options in _OPTIONS.values() for option in options)

# Words of other languages for Python's True, False and None.
_VALUES = {'true': 'True', 'yes': 'True', 'on': 'True', 'false': 'False',
           'no': 'False', 'off': 'False', 'none': 'None', 'null': 'None',
           'nil': 'None'}


def problem(section: str, option: str) -> Optional[str]:
  """Explains an unknown option in one line; None if it exists.

  `section` is such as 'LearnerConfig', or empty if only the option was given.
  """
  if option in _OPTIONS.get(section, ()):
    return None
  meant = ' or '.join(_meant(section, option))
  hint = f'did you mean {meant}?' if meant else ''
  if section in _OPTIONS:
    options = ', '.join(_OPTIONS[section])
    return f'{section} has no {option}; {hint or f"it has {options}"}'
  if not section and option in _ALL_OPTIONS:
    return f'{option} needs its section; write {meant}'
  hint = hint or f'sections are {", ".join(_OPTIONS)}'
  missing = f'section {section}' if section else option
  return f'there is no {missing}; {hint}'


def is_option(name: str) -> bool:
  """Returns whether any section has an option of this name."""
  return name in _ALL_OPTIONS


def value_problem(word: str) -> str:
  """Explains an invalid value in one line, with a correction."""
  value = _VALUES.get(word.lower())
  if value:
    return f'{word} is no value; did you mean {value}?'
  return f"{word} is no value; text stands in quotes: '{word}'"


def _meant(section: str, option: str) -> List[str]:
  """Lists probable options: the nearest section's, else any section's."""
  near = section if section in _OPTIONS else _nearest(section, _OPTIONS)
  for wanted in (option, _nearest(option, _OPTIONS.get(near, ())),
                 _nearest(option, _ALL_OPTIONS)):
    found = {name: f'{name}.{wanted}' for name in _OPTIONS
             if wanted in _OPTIONS[name]}
    if found:
      return [found[near]] if near in found else list(found.values())
  return []


def _nearest(name: str, names: Iterable[str]) -> str:
  """Returns the nearest name, ignoring case; '' if none is near."""
  by_lower_case = {n.lower(): n for n in names}
  found = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
  return by_lower_case[found[0]] if found else ''
