"""Conversion from .gin files to configs and back.

Only gin's parser is used, since gin itself would import modules that a file
names, and call functions that a value refers to. Files may come from strangers:
text that does more than bind data is refused.
"""

import dataclasses
import difflib
import io
import os
import pathlib
import re
from typing import Any, Iterable, NamedTuple, Sequence

from gin import config_parser

from impala_tf import config as config_lib
from impala_tf.storage import files
from impala_tf.storage import shipped
from impala_tf.sweeps import plan as plan_lib

# Lines with which gin's files begin. They have no effect here.
_HEADER = ('from __gin__ import dynamic_registration\n'
           'from impala_tf import config\n')
_MODULES = ('__gin__.dynamic_registration', 'impala_tf.config',
            'impala_tf.sweeps')
_PREFIXES = ('', 'config', 'sweeps', *_MODULES[1:])

# Around what `dumps` writes, so that a file that has lost its end is noticed.
_FIRST_LINE = '# All values of a run, down to a line that says so.\n'
_LAST_LINE = '# These were all values.\n'

# Each section's options.
_OPTIONS: dict[str, tuple[str, ...]] = {
    section.__name__: tuple(field.name for field in dataclasses.fields(section))
    for section in (*config_lib.sections().values(), plan_lib.SweepConfig)}
_ALL_OPTIONS = tuple(
    option for options in _OPTIONS.values() for option in options)

_MAX_VALUES = 100_000
_Values = dict[str, dict[str, Any]]  # By section and option.


class _Name(NamedTuple):
  """A reference, %NAME, to a value that another line binds."""
  name: str


class _Delegate(config_parser.ParserDelegate):
  """A parser delegate that records references to code and resolves none."""

  def __init__(self, named: set[str]):
    """Stores a set that gets each NAME of which there is a %NAME."""
    self.references: list[str] = []
    self._named = named

  def configurable_reference(self, scoped_configurable_name, evaluate):
    self.references.append(scoped_configurable_name)

  def macro(self, macro_name):
    self._named.add(macro_name)
    return _Name(macro_name)


class _Reader:
  """A reader of files and bindings; an option's last binding counts."""

  def __init__(self, sections: Sequence[str]):
    """Stores the names of the sections that may be bound."""
    self._sections = sections
    self._values: _Values = {}
    # For each name like %NAME, its value and the line that binds it.
    self._named: dict[str, tuple[Any, str]] = {}
    self._used: set[str] = set()
    self._left = _MAX_VALUES
    self._open: list[str] = []  # Files, each included by the one before.

  def read_file(self, path: str) -> None:
    """Reads a file and the files it includes; raises ConfigError if invalid."""
    if path in self._open:
      raise config_lib.ConfigError(
          f'{path} includes itself, perhaps by way of another file; leave that '
          'include out')
    try:
      text = files.read(path).decode('utf-8-sig')
    except (OSError, ValueError) as error:
      raise _unreadable(path, error) from error
    if not text.strip() or (
        text.startswith(_FIRST_LINE) and _LAST_LINE not in text):
      raise config_lib.ConfigError(
          f"{path} is empty or cut off; restore a copy, or, if it is a run's, "
          'train anew with another --run_dir')
    self._open.append(path)
    self.read(text, path)
    self._open.pop()

  def read(self, text: str, what: str) -> None:
    """Reads .gin text, named `what` in errors; raises ConfigError if bad."""
    delegate = _Delegate(self._used)
    try:
      for statement in config_parser.ConfigParser(io.StringIO(text), delegate):
        where = self._place(what, statement.location.line_num)
        if delegate.references:
          raise config_lib.ConfigError(
              f'{where} refers to code (@{delegate.references[0]}), but a .gin '
              'file binds data only; write the value itself')
        if isinstance(statement, config_parser.ImportStatement):
          if statement.module not in _MODULES:
            raise config_lib.ConfigError(
                f'{where} imports {statement.module}, but a .gin file binds '
                f'data and may import {" and ".join(_MODULES[1:])} only; leave '
                'that out')
        elif isinstance(statement, config_parser.IncludeStatement):
          self.read_file(self._find(statement.filename, where))
        elif isinstance(statement, config_parser.BindingStatement):
          self._add(statement, where)
    except config_lib.ConfigError:
      raise
    except Exception as error:  # Also of Python's tokens: an open bracket.
      word = re.search("Failed to parse token '(.*)'", str(error))
      if not word or not isinstance(error, SyntaxError):
        raise _unreadable(what, error) from error
      raise config_lib.ConfigError(
          f'{self._place(what, error.lineno)}: {word[1]} is no value; text '
          "stands in quotes, such as 'catch', which a shell needs in other "
          'quotes; other words are True, False and None') from error

  def _place(self, what: str, line: int | None) -> str:
    """Returns a name for messages: a line of the open file, or a binding."""
    return f'{what}, line {line}' if self._open else what

  def _find(self, path: str, where: str) -> str:
    beside = os.path.abspath(
        os.path.dirname(self._open[-1]) if self._open else '')
    # Shipped files include shipped ones, whatever the working directory has.
    is_shipped = pathlib.Path(beside).is_relative_to(shipped.ROOT / 'configs')
    for directory in filter(None, (
        beside, '' if is_shipped else os.getcwd(), str(shipped.ROOT))):
      found = os.path.normpath(os.path.join(directory, path))
      if os.path.isfile(found):
        return found
    raise config_lib.ConfigError(
        f'{where}: there is no file {path} to include; correct it')

  def _add(self, statement: config_parser.BindingStatement, where: str) -> None:
    selector, option = statement.selector, statement.arg_name
    if statement.scope:
      raise config_lib.ConfigError(
          f'{where}: {statement.scope}/{selector} has a scope, which has no '
          'effect here; leave that out')
    # It binds a name for other lines.
    if not option and (self._open or selector in {*self._named, *self._used}):
      self._named[selector] = statement.value, where
      return
    if not option or selector in _PREFIXES:
      selector, option = '', option or selector
    module, _, section = selector.rpartition('.')
    if module not in _PREFIXES:
      raise config_lib.ConfigError(
          f'{where}: binds {selector}, which is no section of the config; '
          'docs/configuration.md lists them')
    problem = _problem(section, option, self._sections)
    if problem is not None:
      raise config_lib.ConfigError(f'{where}: {problem}')
    self._values.setdefault(section, {})[option] = statement.value

  def values(self) -> _Values:
    """Returns values by section, option; raises ConfigError for bad names."""
    try:
      values = self._resolved(self._values)
    except (RecursionError, TypeError) as error:  # A list is no key.
      raise config_lib.ConfigError(
          'a %NAME refers to itself, or stands for a list where a dict has a '
          'key; write the value itself') from error
    known = [option for name in self._sections for option in _OPTIONS[name]]
    for name, (_, where) in self._named.items():
      # It is most likely an option without its section, or a section.
      if name not in self._used and (name in (*_OPTIONS, *_ALL_OPTIONS) or (
          name.islower() and _nearest(name, known))):
        problem = _problem('', name, self._sections)
        raise config_lib.ConfigError(f'{where}: {problem}')
    return values

  def _resolved(self, value: Any) -> Any:
    self._left -= 1
    if self._left < 0:  # Names of lists of names double with each line.
      raise config_lib.ConfigError('there are too many values; write fewer')
    if isinstance(value, _Name):
      if value.name not in self._named:
        near = _nearest(value.name, self._named)
        raise config_lib.ConfigError(
            f'a value is %{value.name}, but no line binds {value.name}' +
            f'; did you mean %{near}?' * bool(near))
      return self._resolved(self._named[value.name][0])
    if isinstance(value, dict):
      return {self._resolved(key): self._resolved(item)
              for key, item in value.items()}
    if isinstance(value, (list, tuple)):
      return type(value)(map(self._resolved, value))
    return value


def _unreadable(what: str, error: Exception) -> config_lib.ConfigError:
  cause = files.one_line(error, None).rstrip('.')
  return config_lib.ConfigError(
      f'cannot read {what}: {cause}; docs/configuration.md lists all names and '
      'their values, docs/sweeps.md those of a sweep')


def _problem(section: str, option: str, sections: Sequence[str]) -> str | None:
  """Returns a one-line error for an unknown option; None if it exists.

  `section` is such as 'LearnerConfig', or empty if only the option was given.
  The error proposes options of `sections`.
  """
  if option in _OPTIONS.get(section, ()):
    return None
  near, meant = _nearest(section, _OPTIONS), ''
  for wanted in (option, _nearest(option, _OPTIONS.get(near, ())),
                 _nearest(option, _ALL_OPTIONS)):
    if found := [name for name in sections if wanted in _OPTIONS[name]]:
      meant = ' or '.join(f'{name}.{wanted}' for name in (
          [near] if near in found else found))
      break  # The nearest section's, else any section's.
  hint = f'did you mean {meant}?' if meant else ''
  if section in _OPTIONS:
    options = ', '.join(_OPTIONS[section])
    return f'{section} has no {option}; {hint or f"it has {options}"}'
  if not section and option in sections:
    return f'{option} is a section; bind its options, such as {option}.' + (
        _OPTIONS[option][0])
  if not section and meant and option in _ALL_OPTIONS:
    return f'{option} needs its section; write {meant}'
  hint = hint or f'sections are {", ".join(sections)}'
  missing = f'section {section}' if section else option
  return f'there is no {missing}; {hint}'


def _nearest(name: str, names: Iterable[str]) -> str:
  by_lower_case = {n.lower(): n for n in names}
  found = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
  return by_lower_case[found[0]] if found else ''


def load(path: str, bindings: Sequence[str] = ()) -> config_lib.Config:
  """Reads a .gin file, then bindings; raises ConfigError if one is invalid.

  The file is a path, a URL or the name of a shipped one, see
  `shipped.find_config`. Files that it includes are sought beside it, from the
  working directory and from the one that holds configs/, and cannot be URLs.
  Bindings are such as 'LearnerConfig.batch_size = 16'.
  """
  sections = config_lib.sections()
  values = _read(
      path, [section.__name__ for section in sections.values()], bindings)
  return config_lib.Config(**{
      name: section(**values.get(section.__name__, {}))
      for name, section in sections.items()})


def load_sweep(path: str, kind: str = '') -> plan_lib.SweepConfig:
  """Reads a sweep's .gin file, see `load`; `kind` goes to `find_config`."""
  values = _read(path, ['SweepConfig'], kind=kind)
  return plan_lib.SweepConfig(**values.get('SweepConfig', {}))


def _read(path: str, sections: Sequence[str], bindings: Sequence[str] = (),
          kind: str = '') -> _Values:
  if not files.is_url(path):
    path = shipped.find_config(path, kind)
  reader = _Reader(sections)
  reader.read_file(path)
  for binding in bindings:
    reader.read(binding.strip(), f'the binding {binding!r}')
  values = reader.values()
  for name in values:
    if name not in sections:
      remedy = ('SweepConfig.fixed has values of all runs'
                if 'SweepConfig' in sections else
                'SweepConfig is for the files of sweeps and populations')
      raise config_lib.ConfigError(f'{name} cannot be bound here, only '
                                   f'{", ".join(sections)}; {remedy}')
  return values


def dumps(config: config_lib.Config) -> str:
  """Returns text of a .gin file with all values, which `load` reads back."""
  sections = [_section('config', section) for section in vars(config).values()]
  return '\n'.join([_FIRST_LINE + _HEADER, *sections, _LAST_LINE])


def dumps_sweep(config: plan_lib.SweepConfig) -> str:
  """Returns the text of a sweep's .gin file, which `load_sweep` reads back."""
  return (f'{_HEADER.replace("import config", "import sweeps")}\n'
          f'{_section("sweeps", config)}')


def _section(module: str, section: Any) -> str:
  return ''.join(f'{module}.{type(section).__name__}.{option} = {value!r}\n'
                 for option, value in vars(section).items())


def values(config: config_lib.Config) -> dict[str, Any]:
  """Returns the value of each option by its name in .gin files."""
  return {f'{type(section).__name__}.{option}': value
          for section in vars(config).values()
          for option, value in vars(section).items()}


def differences(old: config_lib.Config,
                new: config_lib.Config) -> Sequence[str]:
  """Lists changed values, like 'LearnerConfig.batch_size (32, now 16)'."""
  # As text: in a dict 1, 1.0 and True are equal otherwise.
  return [f'{name} ({was!r}, now {now!r})' for (name, was), now in zip(
      values(old).items(), values(new).values()) if repr(was) != repr(now)]


def config_path(run_dir: str) -> str:
  """Returns the path of the run's `config.gin`."""
  return os.path.join(run_dir, 'config.gin')
