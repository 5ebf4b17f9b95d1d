"""Prints all options of the config, with defaults, ranges and meanings."""

import dataclasses
import inspect
import re
import textwrap
import typing
from typing import NamedTuple

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program

# Units that end the names of options, and how they are written out.
_UNITS = {'frames': 'environment frames', 'secs': 'seconds',
          'steps': 'agent steps', 'unrolls': 'unrolls', 'updates': 'updates'}


class Option(NamedTuple):
  """An option of the config and its documentation, as text."""
  name: str  # 'batch_size'.
  default: str  # As it is written in a .gin file.
  values: str  # Type and range, or all choices.
  unit: str  # '' if it has none.
  source: str  # '' if it is this project's own.
  meaning: str  # Its part of the docstring.


def describe(section: type) -> tuple[str, list[Option]]:
  """Returns the title of a section of the config, and its options."""
  docstring = inspect.getdoc(section) or ''
  meanings = _meanings(docstring)
  hints = typing.get_type_hints(section)
  return docstring.partition('\n')[0], [
      Option(name=field.name,
             default=repr(getattr(section(), field.name)),
             values=_values(hints[field.name], field.metadata),
             unit=field.metadata.get('unit') or _UNITS.get(
                 field.name.rpartition('_')[2], ''),
             source=field.metadata.get('source', ''),
             meaning=meanings[field.name])
      for field in dataclasses.fields(section)]


def _meanings(docstring: str) -> dict[str, str]:
  """Returns a docstring's description of each attribute, on one line each."""
  found = {}
  for entry in re.split(r'\n  (?=\w[\w, ]*:\s)',
                        docstring.partition('\nAttributes:')[2]):
    names, _, meaning = entry.partition(':')
    for name in names.split(','):
      found[name.strip()] = ' '.join(meaning.split())
  return found


def _values(hint: type, limits: typing.Mapping[str, typing.Any]) -> str:
  """Returns the values that an option may have, such as 'int, at least 1'."""
  kinds = [h for h in typing.get_args(hint) if h is not type(None)]
  if limits.get('choices'):
    parts = [' or '.join(map(repr, limits['choices']))]
  else:
    parts = [(kinds or [hint])[0].__name__] + [
        f'{word.replace("_", " ")} {limits[word]:,}'
        for word in ('at_least', 'above', 'at_most', 'below')
        if limits.get(word) is not None]
  return ', '.join(parts) + (', or None' if kinds else '')


def as_text() -> str:
  """Returns a description of all options for a terminal."""
  lines = []
  for section in config_lib.sections().values():
    title, options = describe(section)
    lines += [title, '']
    for option in options:
      facts = [option.values, option.unit, option.source]
      lines.append(f'  {section.__name__}.{option.name} = {option.default}')
      for text in (option.meaning, f'({"; ".join(filter(None, facts))})'):
        lines += textwrap.wrap(text, 80, initial_indent=' ' * 6,
                               subsequent_indent=' ' * 6)
    lines.append('')
  return '\n'.join(lines)


def as_markdown() -> str:
  """Returns the tables of docs/configuration.md, which describe all options."""
  lines = []
  for section in config_lib.sections().values():
    title, options = describe(section)
    lines += [f'## {section.__name__}', '', title, '',
              '| option | default | values | unit | source | meaning |',
              '|---|---|---|---|---|---|']
    for name, default, *cells in options:
      # Browsers would take '<game>' for a tag.
      lines.append(f'| `{name}` | `{default}` | {" | ".join(cells)} |'.replace(
          '<', '&lt;'))
    lines.append('')
  return '\n'.join(lines)


@program.returning_exit_code
def main() -> None:
  """Prints all options."""
  parser = command_line.Parser(description=__doc__)
  parser.add_argument('--markdown', action='store_true',
                      help='as the tables of docs/configuration.md')
  print(as_markdown() if parser.parse_args().markdown else as_text(), end='')
