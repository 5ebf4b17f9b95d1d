"""Names of sections and knobs, and what a name that does not exist may mean."""

import dataclasses
import difflib
from typing import Dict, Iterable, List, Optional, Tuple

from impala_tf import config as config_lib
from impala_tf.sweeps import plan as plan_lib


def _names(section: type) -> Tuple[str, ...]:
  return tuple(field.name for field in dataclasses.fields(section))


# Each section's knobs.
_KNOBS: Dict[str, Tuple[str, ...]] = {
    **{field.type.__name__: _names(field.type)
       for field in dataclasses.fields(config_lib.Config)},
    plan_lib.SweepConfig.__name__: _names(plan_lib.SweepConfig)}
_ALL_KNOBS = tuple(knob for knobs in _KNOBS.values() for knob in knobs)

# Words of other languages for Python's True, False and None.
_VALUES = {'true': 'True', 'yes': 'True', 'on': 'True', 'false': 'False',
           'no': 'False', 'off': 'False', 'none': 'None', 'null': 'None',
           'nil': 'None'}


def problem(section: str, knob: str) -> Optional[str]:
  """Explains in one line why there is no such knob, and names what is near.

  Args:
    section: such as 'LearnerConfig'; empty where only the knob was given.
    knob: such as 'batch_size'.

  Returns:
    The line, without a name of the file; None where there is this knob.
  """
  if knob in _KNOBS.get(section, ()):
    return None
  meant = _meant(section, knob)
  hint = f'did you mean {" or ".join(meant)}?'
  if not section:
    if knob in _ALL_KNOBS:
      return f'{knob} needs its section; write {" or ".join(meant)}'
    return f'there is no {knob}; {hint if meant else _list_sections()}'
  if section in _KNOBS:
    knobs = ', '.join(_KNOBS[section])
    return f'{section} has no {knob}; {hint if meant else f"it has {knobs}"}'
  return f'there is no section {section}; {hint if meant else _list_sections()}'


def is_knob(name: str) -> bool:
  """Tells whether any section has a knob of this name."""
  return name in _ALL_KNOBS


def value_problem(word: str) -> str:
  """Explains in one line why a word is no value, and what to write."""
  value = _VALUES.get(word.lower())
  if value:
    return f'{word} is no value; did you mean {value}?'
  return f"{word} is no value; text stands in quotes: '{word}'"


def _list_sections() -> str:
  return f'sections are {", ".join(_KNOBS)}'


def _meant(section: str, knob: str) -> List[str]:
  """Lists knobs that may be meant: the nearest section's, else any one's."""
  near = section if section in _KNOBS else _nearest(section, _KNOBS)
  for wanted in (knob, _nearest(knob, _KNOBS.get(near, ())),
                 _nearest(knob, _ALL_KNOBS)):
    found = {name: f'{name}.{wanted}' for name in _KNOBS
             if wanted in _KNOBS[name]}
    if found:
      return [found[near]] if near in found else list(found.values())
  return []


def _nearest(name: str, names: Iterable[str]) -> str:
  """Returns the nearest name whatever its capitals; '' where none is near."""
  by_lower_case = {n.lower(): n for n in names}
  found = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
  return by_lower_case[found[0]] if found else ''
