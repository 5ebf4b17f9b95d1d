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
import pathlib
import re
from typing import Any, Iterator, Mapping, Sequence

import gin
from gin import config_parser

from impala_tf import config as config_lib
from impala_tf.storage import files
from impala_tf.sweeps import plan as plan_lib

assert importlib.util  # Imported for gin alone.

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_HEADER = ('from __gin__ import dynamic_registration\n'
           'from impala_tf import config\n')

# Modules that a file may import, as gin names them.
_MODULES = ('__gin__.dynamic_registration', 'impala_tf.config',
            'impala_tf.sweeps')


class _References(config_parser.ParserDelegate):
  """A parser delegate that notes what values refer to, and resolves nothing."""

  def __init__(self):
    self.names = []

  def configurable_reference(self, scoped_configurable_name, evaluate):
    del evaluate
    self.names.append(scoped_configurable_name)

  def macro(self, macro_name):
    del macro_name  # The name of a value that is bound in the file.


def _checked(text: str, what: str) -> io.StringIO:
  """Returns a text as a stream for gin to read.

  Args:
    text: content of a file, or a binding.
    what: name of the text, for messages.

  Raises:
    ConfigError: where gin would import or call anything.
  """
  stream = io.StringIO(text)
  stream.name = what
  references = _References()
  for statement in config_parser.ConfigParser(stream, references):
    if references.names:
      raise config_lib.ConfigError(
          f'{what} refers to code (@{references.names[0]}), but a .gin file '
          'binds data only; write the value itself')
    if (isinstance(statement, config_parser.ImportStatement)
        and statement.module not in _MODULES):
      raise config_lib.ConfigError(
          f'{what} imports {statement.module}, but a .gin file binds data and '
          f'may import {" and ".join(_MODULES[1:])} only; leave that out')
    # Modules have further ones as attributes, some of which are imported then.
    if getattr(statement, 'selector', '').count('.') > 1:
      raise config_lib.ConfigError(
          f'{what} binds {statement.selector}, which is no section of the '
          'config; impala_tf/config.py lists them')
  stream.seek(0)
  return stream


def _open_checked(path: str) -> io.StringIO:
  """Opens a file for gin, which calls this for included files too."""
  return _checked(files.read(path).decode('utf-8'), path)


gin.add_config_file_search_path(str(_ROOT))
# In place of gin's own two readers. The other would take configs/ for a Python
# package, and fail since it is none, instead of looking in the next place.
gin.config._FILE_READERS[:] = [  # pylint: disable=protected-access
    (_open_checked, os.path.isfile)]


def load(path: str, bindings: Sequence[str] = ()) -> config_lib.Config:
  """Reads a .gin file and bindings on top of it.

  Args:
    path: path or URL of the file; files that it includes are sought from the
      working directory and from the project's top directory, and are no URLs.
    bindings: such as 'LearnerConfig.batch_size = 16'.

  Returns:
    The config.

  Raises:
    config_lib.ConfigError: in one line that names the cause.
  """
  with _parsed(path, bindings):
    return _from_gin()


def load_sweep(path: str) -> plan_lib.SweepConfig:
  """Reads a sweep's .gin file, like `load`.

  Raises:
    config_lib.ConfigError: in one line that names the cause.
  """
  with _parsed(path):
    for name in _bound_names():
      if name != 'sweeps.SweepConfig':
        raise config_lib.ConfigError(
            f'{name} cannot be bound for a sweep as a whole; put it into '
            'SweepConfig.fixed')
    return plan_lib.SweepConfig(**_bindings_of('sweeps.SweepConfig'))


@contextlib.contextmanager
def _parsed(path: str, bindings: Sequence[str] = ()) -> Iterator[None]:
  """Loads a file and bindings into gin as long as the context lasts."""
  is_url = files.is_url(path)
  if not (files.exists(path) if is_url else any(
      os.path.isfile(os.path.join(d, path)) for d in ('', _ROOT))):
    raise config_lib.ConfigError(
        f'there is no file {path}; name a .gin file, as configs/ has them')
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
        gin.parse_config(_checked(_HEADER + qualified, what))
    with _explained(path):
      yield
  finally:
    gin.clear_config()


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
  """Turns whatever gin raises, which may be anything, into a ConfigError."""
  try:
    yield
  except config_lib.ConfigError as error:
    # gin adds lines that say where a file was included.
    raise config_lib.ConfigError(str(error).partition('\n')[0]) from error
  except Exception as error:
    cause = files.one_line(error, None).rstrip('.')
    raise config_lib.ConfigError(
        f'cannot read {what}: {cause}; impala_tf/config.py lists all names and '
        'their values, impala_tf/sweeps/plan.py those of a sweep') from error


def _from_gin() -> config_lib.Config:
  """Builds a config from what was bound to each of its sections."""
  fields = dataclasses.fields(config_lib.Config)
  known = [field.type.__name__ for field in fields]
  # A value that is bound in a scope, or to another class, has no effect.
  for name in _bound_names():
    if re.sub(r'^config\.', '', name) not in known:
      raise config_lib.ConfigError(
          f'{name} is no section of the config; sections are '
          f'{", ".join(known)}')
  sections = {}
  for field in fields:
    bound = _bindings_of(f'config.{field.type.__name__}')
    sections[field.name] = field.type(**bound)
  return config_lib.Config(**sections)


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
  lines = [_HEADER]
  for section in dataclasses.fields(config):
    values = getattr(config, section.name)
    for field in dataclasses.fields(values):
      value = getattr(values, field.name)
      lines.append(f'config.{section.type.__name__}.{field.name} = {value!r}')
    lines.append('')
  return '\n'.join(lines)


def dumps_sweep(config: plan_lib.SweepConfig) -> str:
  """Returns a .gin file of a sweep's values for `load_sweep`."""
  lines = ['from __gin__ import dynamic_registration',
           'from impala_tf import sweeps', '']
  for field in dataclasses.fields(config):
    value = getattr(config, field.name)
    lines.append(f'sweeps.SweepConfig.{field.name} = {value!r}')
  return '\n'.join(lines) + '\n'


def differences(old: config_lib.Config,
                new: config_lib.Config) -> Sequence[str]:
  """Lists values that differ, like 'LearnerConfig.batch_size (32, now 16)'."""
  found = []
  for section in dataclasses.fields(old):
    was, now = getattr(old, section.name), getattr(new, section.name)
    for field in dataclasses.fields(was):
      a, b = getattr(was, field.name), getattr(now, field.name)
      if a != b:
        name = f'{section.type.__name__}.{field.name}'
        found.append(f'{name} ({a!r}, now {b!r})')
  return found


def config_path(run_dir: str) -> str:
  """Returns the path of a run's own config file."""
  return os.path.join(run_dir, 'config.gin')
