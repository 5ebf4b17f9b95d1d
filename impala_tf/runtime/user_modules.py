"""Imports of the user's modules, in every process of a run.

They register environments, networks or algorithms. Importing a module runs its
code, so only the user may name them, on the command line (--import=FILE.py). If
the user's program calls the training, its child processes import the modules
that registered something.
"""

import difflib
import importlib
import importlib.util
import multiprocessing
import os
import sys
import traceback
from typing import Iterable, Sequence

from impala_tf import config as config_lib
from impala_tf.storage import files

# Imported modules: name, to file or, if the user gave the name, that name.
_sources: dict[str, str] = {}
# Registered option and value, to the name of the user's module.
_registrars: dict[tuple[str, str], str] = {}
_importing: str | None = None  # The module that `load` is importing.


def load(sources: Sequence[str]) -> None:
  """Imports modules, each once: .py files, and installed modules by name.

  A file can import its neighbours. Raises UserError with file and line number
  if a module does not exist or raises an error.
  """
  global _importing
  for source in [sources] if isinstance(sources, str) else sources:
    name, where = _find(source)
    before, _importing = _importing, where
    try:
      importlib.import_module(name)
    except (Exception, SystemExit) as error:  # Their code may raise anything.
      raise config_lib.UserError(
          f'--import: {_explain(error, where)}') from error
    finally:
      _importing = before
    _sources[name] = where


def note_registration(option: str, value: str) -> None:
  """Records the module whose code runs now as the registrar of a value."""
  frame = sys._getframe(1)
  while frame.f_code.co_name != '<module>' and frame.f_back is not None:
    frame = frame.f_back
  _registrars[option, value] = frame.f_globals['__name__']


def registrar(option: str, value: str) -> str | None:
  """Returns the module that registered a value; None if it is built in."""
  return _registrars.get((option, value))


def share(name: str, what: str) -> None:
  """Makes child processes import a module, and imports it here.

  `name` is '__main__' for the program; `what` it has registered is for
  messages. Raises UserError if other processes cannot import it.
  """
  if name in _sources:
    return
  if name not in sys.modules:
    load([name])
    return
  module = sys.modules[name]
  spec, path = getattr(module, '__spec__', None), getattr(
      module, '__file__', None)
  source = name
  if name == '__main__' and spec is not None:  # python -m
    name = source = spec.name
  elif name == '__main__' or '.' not in name:
    if path is None or not os.path.isfile(path):
      raise config_lib.UserError(
          f'{what} was registered in a notebook, by python -c or from standard '
          'input, which other processes cannot import; put that into a .py '
          'file and import it, or train with in_process=True alone')
    if os.path.basename(path) != '__init__.py':
      name, source = _find(os.path.abspath(path))
  _sources[name] = source


def refuse_while_importing(function: str) -> None:
  """Raises UserError in a module that calls `function` as it is imported."""
  # `multiprocessing` imports the program in its children.
  is_child = getattr(multiprocessing.current_process(), '_inheriting', False)
  if _importing is not None or is_child:
    raise config_lib.UserError(
        f"every process of a run imports {_importing or 'its program'}, which "
        f'calls {function} at once; put that call under '
        "if __name__ == '__main__':")


def is_loaded(name: str) -> bool:
  """Returns whether the user has named, and so trusts, a module."""
  return name in _sources


def sources() -> list[str]:
  """Returns the user's imports: files (absolute paths) and module names."""
  return list(_sources.values())


def paths() -> list[str]:
  """Returns the user's imported files, which other machines need too."""
  return [source for source in sources() if os.path.isabs(source)]


def flags() -> list[str]:
  """Returns the flags that import the same modules in another program."""
  return [f'--import={source}' for source in sources()]


def check_installed(package: str, extra: str, what: str) -> None:
  """Raises UserError, which names `what` needs it, if a package is missing."""
  spec = importlib.util.find_spec(package)
  # A directory of its name, as wandb leaves them, is no package.
  if spec is None or spec.origin is None:
    raise config_lib.ConfigError(
        f"{what} needs the package {package}: pip install 'impala_tf[{extra}]'")


def unknown_name(option: str, value: str, known: Iterable[str]
                 ) -> config_lib.ConfigError:
  """Makes the error for an option that holds an unregistered name."""
  known = list(known)
  near = difflib.get_close_matches(value, known, n=1)
  hint = f'did you mean {near[0]!r}? ' if near else ''
  return config_lib.ConfigError(
      f'{option} must be one of {", ".join(known)}, but is {value!r}; {hint}'
      'one of your own is known once the file that registers it was imported '
      '(--import=FILE.py)')


def _find(source: str) -> tuple[str, str]:
  """Returns a module's name, and its absolute path (file) or the name again."""
  if os.sep not in source and not source.endswith('.py'):
    return source, source
  path = os.path.abspath(source)
  if not path.endswith('.py') or not os.path.isfile(path):
    raise config_lib.UserError(
        f'--import={source}: there is no such file; give the path of a .py '
        'file, or the name of an installed module')
  directory, name = os.path.split(path[:-len('.py')])
  if not name.isidentifier():
    raise config_lib.UserError(
        f"--import={source}: {name!r} cannot be a module's name; rename the "
        'file, with letters, digits and _ only')
  if directory not in sys.path:
    sys.path.append(directory)  # Last, so that its files hide nothing.
  try:
    spec = importlib.util.find_spec(name)
  except ValueError:  # Of a module that was not imported but started.
    spec = None
  found = spec and spec.origin or 'another module'
  if not os.path.exists(found) or not os.path.samefile(found, path):
    raise config_lib.UserError(
        f'--import={source}: {name} is also the name of {found}, which would '
        'be imported instead; rename the file')
  return name, path


def _explain(error: BaseException, where: str) -> str:
  """Describes an error of an import in one line; `where`: path or name."""
  if isinstance(error, ModuleNotFoundError) and (
      f'{where}.'.startswith(f'{error.name}.')):
    return (f'there is no module {where!r}; give the name of an installed one, '
            'or the path of a .py file')
  if isinstance(error, SyntaxError):
    return (f'{error.filename}, line {error.lineno}: '
            f'{type(error).__name__}: {error.msg}')
  cause = files.one_line(error)
  if not isinstance(error, config_lib.UserError):  # That a name is taken, say.
    cause = f'{type(error).__name__}: {cause}'
  frames = [frame for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename not in (__file__, importlib.__file__)
            and not frame.filename.startswith('<frozen')]
  if not frames:
    return f'{where}: {cause}'
  # The last of the user's lines; those of libraries follow.
  directory = os.path.dirname(frames[0].filename)
  line = [frame for frame in frames
          if os.path.dirname(frame.filename) == directory][-1]
  return f'{line.filename}, line {line.lineno}: {cause}'
