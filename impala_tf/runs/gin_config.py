"""Conversion from .gin files to configs and back; the only user of gin.

gin imports what a file names and calls what a value refers to. Files may come
from strangers, so all text is checked before gin reads it, and text that does
more than bind data is refused.
"""

import contextlib
import dataclasses
import importlib.util  # gin 0.5.0 uses it without importing it.
import io
import os
import re
from typing import Any, Dict, Iterator, Mapping, Sequence

import gin
from gin import config_parser

from impala_tf import config as config_lib
from impala_tf.runs import option_names
from impala_tf.storage import files
from impala_tf.storage import shipped
from impala_tf.sweeps import plan as plan_lib

assert importlib.util  # Imported for gin alone.

_HEADER = ('from __gin__ import dynamic_registration\n'
           'from impala_tf import config\n')

# Modules that a file may import, as gin names them.
_MODULES = ('__gin__.dynamic_registration', 'impala_tf.config',
            'impala_tf.sweeps')
_PREFIXES = ('config', 'sweeps')

# Runs from before there was this option go on as they began.
_CONVERTED = 'config.EnvironmentConfig.converted'

# Around what `dumps` writes, so that a file that has lost its end is noticed.
_FIRST_LINE = '# All values of a run, down to a line that says so.\n'
_LAST_LINE = '# These were all values.\n'


class _References(config_parser.ParserDelegate):
  """A parser delegate that records references in values and resolves none."""

  def __init__(self):
    self.names = []
    self.macros = set()

  def configurable_reference(self, scoped_configurable_name, evaluate):
    del evaluate
    self.names.append(scoped_configurable_name)

  def macro(self, macro_name):
    self.macros.add(macro_name)  # The name of a value that is bound in a file.


def _checked(text: str, what: str, is_file: bool = True) -> io.StringIO:
  """Returns a checked text, called `what` in messages, as a stream for gin.

  Raises ConfigError if gin would import or call anything, or an option is
  unknown. Messages give the line numbers of a file.
  """
  stream = io.StringIO(text)
  stream.name = what
  references = _References()
  macros = []
  imported, used = set(), set()
  try:
    for statement in config_parser.ConfigParser(stream, references):
      where = what
      if is_file:
        where = f'{what}, line {statement.location.line_num}'
      if references.names:
        raise config_lib.ConfigError(
            f'{what} refers to code (@{references.names[0]}), but a .gin file '
            'binds data only; write the value itself')
      if isinstance(statement, config_parser.ImportStatement):
        if statement.module not in _MODULES:
          raise config_lib.ConfigError(
              f'{what} imports {statement.module}, but a .gin file binds data '
              f'and may import {" and ".join(_MODULES[1:])} only; leave that '
              'out')
        imported.add(statement.module)
      if isinstance(statement, config_parser.BindingStatement):
        if statement.arg_name:
          _check_binding(statement, where)
          used.add(statement.selector.partition('.')[0])
        else:
          macros.append((statement.selector, where))
  except SyntaxError as error:
    found = re.search("Failed to parse token '(.*)'", error.msg)
    if not found:
      raise
    where = f'{what}, line {error.lineno}' if is_file else what
    raise config_lib.ConfigError(  # Of an unquoted or misspelt value.
        f'{where}: {option_names.value_problem(found[1])}') from error
  for prefix in used:
    if not imported.issuperset((_MODULES[0], f'impala_tf.{prefix}')):
      raise config_lib.ConfigError(
          f'{what} must begin with the two lines "from __gin__ import '
          f'dynamic_registration" and "from impala_tf import {prefix}"')
  for name, where in macros:
    # It binds a name for other lines, but is most likely an option's.
    if option_names.is_option(name) and name not in references.macros:
      raise config_lib.ConfigError(
          f'{where}: {option_names.problem("", name)}')
  stream.seek(0)
  return stream


def _check_binding(statement: config_parser.BindingStatement,
                   where: str) -> None:
  """Raises ConfigError for an unknown option, and names the nearest."""
  selector, option = statement.selector, statement.arg_name
  # Modules have further ones as attributes, some of which are imported then.
  if selector.count('.') > 1:
    raise config_lib.ConfigError(
        f'{where}: binds {selector}, which is no section of the '
        'config; impala_tf/config/config.py lists them')
  module, _, section = selector.rpartition('.')
  if selector in _PREFIXES:
    module, section = selector, ''
  problem = option_names.problem(section, option)
  if problem is None and not module:
    prefix = 'sweeps' if section == 'SweepConfig' else 'config'
    problem = (f'{section} needs its module; write '
               f'{prefix}.{section}.{option}')
  if problem is not None:
    raise config_lib.ConfigError(f'{where}: {problem}')


def _with_neighbours(text: str, directory: str) -> str:
  """Gives included files that lie in `directory` their whole paths."""

  def found(match: re.Match) -> str:
    path = os.path.join(os.path.abspath(directory), match[2])
    return f'include {path!r}' if os.path.isfile(path) else match[0]

  return re.sub(r'^include\s+([\'"])(.*?)\1', found, text, flags=re.MULTILINE)


def _open_checked(path: str) -> io.StringIO:
  """Opens a whole file for gin, which calls this for included files too."""
  text = files.read(path).decode('utf-8')
  remedy = ('put back a copy; the same training command with a new --run_dir '
            'writes one')
  if not text.strip():
    if os.path.basename(path) != config_path(''):
      remedy = 'it binds nothing, so leave it out or write values into it'
    raise config_lib.ConfigError(f'{path} is empty; {remedy}')
  if text.startswith(_FIRST_LINE) and _LAST_LINE not in text:
    raise config_lib.ConfigError(
        f'{path} is cut off: it should end with {_LAST_LINE.strip()!r}; '
        f'{remedy}')
  if text.startswith(_FIRST_LINE) and _CONVERTED not in text:
    text += f'{_CONVERTED} = False\n'
  return _checked(_with_neighbours(text, os.path.dirname(path)), path)


gin.add_config_file_search_path(str(shipped.ROOT))
# In place of gin's own two readers. The other would take configs/ for a Python
# package, and fail since it is none, instead of looking in the next place.
gin.config._FILE_READERS[:] = [  # pylint: disable=protected-access
    (_open_checked, os.path.isfile)]


def load(path: str, bindings: Sequence[str] = ()) -> config_lib.Config:
  """Reads a .gin file and bindings on top of it; raises ConfigError.

  The file is a path, a URL or the name of a shipped one, see
  `shipped.find_config`. Files that it includes are sought beside it, from the
  working directory and from the one that holds configs/, and cannot be URLs.
  Bindings are such as 'LearnerConfig.batch_size = 16'.
  """
  with _parsed(path, bindings):
    return _from_gin()


def load_sweep(path: str, kind: str = '') -> plan_lib.SweepConfig:
  """Reads a sweep's .gin file, like `load`; `kind` is `find_config`'s."""
  with _parsed(path, kind=kind):
    for name in _bound_names():
      if name != 'sweeps.SweepConfig':
        raise config_lib.ConfigError(
            f'{name} cannot be bound for a sweep as a whole; put it into '
            'SweepConfig.fixed')
    return plan_lib.SweepConfig(**_bindings_of('sweeps.SweepConfig'))


@contextlib.contextmanager
def _parsed(path: str, bindings: Sequence[str] = (), kind: str = ''
            ) -> Iterator[None]:
  """Loads a file and bindings into gin as long as the context lasts."""
  is_url = files.is_url(path)
  if not is_url:
    path = shipped.find_config(path, kind)
  elif not files.exists(path):
    raise config_lib.ConfigError(
        f'there is no file {path}; give the URL of a .gin file')
  gin.clear_config()
  try:
    with _explained(path):
      if is_url:  # gin has no way to URLs, so that no file can include one.
        gin.parse_config(_open_checked(path))
      else:
        gin.parse_config_files_and_bindings(
            [path], None, finalize_config=False)
    for binding in bindings:
      qualified = re.sub(r'^\s*(?:config\.)?', 'config.', binding, count=1)
      what = f'the binding {binding!r}'
      with _explained(what):
        gin.parse_config(_checked(_HEADER + qualified, what, is_file=False))
    with _explained(path):
      yield
  finally:
    gin.clear_config()


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
  """Turns any exception that gin raises into a ConfigError."""
  try:
    yield
  except config_lib.ConfigError as error:
    # gin adds lines that say where a file was included.
    raise config_lib.ConfigError(str(error).partition('\n')[0]) from error
  except RecursionError as error:
    raise config_lib.ConfigError(
        f'{what} includes itself, perhaps by way of another file; leave that '
        'include out') from error
  except Exception as error:
    cause = files.one_line(error, None).rstrip('.')
    raise config_lib.ConfigError(
        f'cannot read {what}: {cause}; docs/configuration.md lists all names '
        'and their values, docs/sweeps.md those of a sweep') from error


def _from_gin() -> config_lib.Config:
  """Builds a config from the bound values of its sections."""
  sections = config_lib.sections()
  known = [section.__name__ for section in sections.values()]
  # A value that is bound in a scope, or to another class, has no effect.
  for name in _bound_names():
    if re.sub(r'^config\.', '', name) not in known:
      raise config_lib.ConfigError(
          f'{name} is no section of the config; sections are '
          f'{", ".join(known)}')
  return config_lib.Config(**{
      name: section(**_bindings_of(f'config.{section.__name__}'))
      for name, section in sections.items()})


def _bound_names() -> Sequence[str]:
  """Returns the class of each bound value, once for each value."""
  return re.findall(r'^(\S+)\.\w+ =', gin.config_str(), re.MULTILINE)


def _bindings_of(name: str) -> Mapping[str, Any]:
  try:
    return gin.get_bindings(name)
  except ValueError:  # Not named in any file: all defaults.
    return {}


def dumps(config: config_lib.Config) -> str:
  """Returns all values as a .gin file, for `load` to read back."""
  sections = [_section('config', getattr(config, field.name))
              for field in dataclasses.fields(config)]
  return '\n'.join([_FIRST_LINE + _HEADER, *sections, _LAST_LINE])


def dumps_sweep(config: plan_lib.SweepConfig) -> str:
  """Returns a .gin file of a sweep's values for `load_sweep`."""
  return ('from __gin__ import dynamic_registration\n'
          f'from impala_tf import sweeps\n\n{_section("sweeps", config)}')


def _section(module: str, section: Any) -> str:
  """Returns a line for each field of a dataclass in a module."""
  return ''.join(
      f'{module}.{type(section).__name__}.{field.name} = '
      f'{getattr(section, field.name)!r}\n'
      for field in dataclasses.fields(section))


def values(config: config_lib.Config) -> Dict[str, Any]:
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
  """Returns the path of a run's own config file."""
  return os.path.join(run_dir, 'config.gin')
