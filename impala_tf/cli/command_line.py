"""Command lines: what all programs refuse, and the two forms of a config."""

import argparse
import difflib
import os
import sys
from typing import Any, Callable, Iterable, NoReturn, Sequence

from impala_tf import config as config_lib
from impala_tf.storage import shipped

# The line that bash is to complete, and the cursor in it: `complete -C` sets
# these variables and wants one candidate a line.
_LINE = 'COMP_LINE'
_CURSOR = 'COMP_POINT'
_EXIT_CODES = (
    'exit codes: 0 all is done, 2 bad input, 129 the terminal was closed, 130 '
    'Ctrl-C, 143 asked to terminate, 1 anything else')


def take_words_to_complete() -> None:
  """Sets `sys.argv` to the words before the cursor if bash asks to complete."""
  if _LINE in os.environ:
    sys.argv[:] = os.environ[_LINE][:int(os.environ[_CURSOR])].split(' ')


class Parser(argparse.ArgumentParser):
  """An argument parser that raises UserError for bad flags and empty values.

  Attributes:
    completers: functions that list what arguments may be, by their `dest`.
  """

  def __init__(self, **settings: Any):
    super().__init__(**{'epilog': _EXIT_CODES, **settings})
    self.completers: dict[str, Callable[[], Sequence[str]]] = {}

  def parse_args(self, args: Iterable[str] | None = None,
                 namespace: Any = None) -> Any:
    """Reads flags and arguments in any order; raises UserError for bad ones."""
    if args is None and _LINE in os.environ:
      print('\n'.join(self._completions(sys.argv[-1])))
      self.exit()
    parsed, unknown = self.parse_known_intermixed_args(args, namespace)
    if unknown:
      self.error(self._why_unknown(unknown[0]))
    for action in reversed(self._actions):  # A flag before its argument.
      value = getattr(parsed, action.dest, None)
      values = value if isinstance(value, list) else [value]
      argument = str(action.metavar or action.dest)
      name = (action.option_strings or [argument])[-1]
      for text in filter(lambda v: isinstance(v, str), values):
        if not text.strip():  # Of an unset variable of a shell.
          raise config_lib.UserError(
              f'{name} is empty; give it a value, or leave it out')
        if os.fsencode(text) != text.encode('utf-8', 'replace'):
          # TensorFlow would write to a path of another name.
          raise config_lib.UserError(
              f'{name} is not in UTF-8; rename the path, or set another locale '
              '(LC_ALL=C.UTF-8)')
      if isinstance(value, str):  # Shells leave the ~ of --flag=~/path.
        setattr(parsed, action.dest, os.path.expanduser(value))
    return parsed

  def _completions(self, word: str) -> Sequence[str]:
    """Lists completions of a word: flags if after a dash, else arguments."""
    found = list(self._option_string_actions)
    if not word.startswith('-'):
      found = [name for action in self._get_positional_actions() for name in (
          action.choices or self.completers.get(action.dest, list)())]
    return [name for name in found if name.startswith(word)]

  def _check_value(self, action, value):
    if action.choices is not None and value not in action.choices:
      near = difflib.get_close_matches(value, action.choices, n=1)
      if near:
        raise argparse.ArgumentError(
            action, f'there is no {value}; did you mean {near[0]}?')
    super()._check_value(action, value)

  def _why_unknown(self, argument: str) -> str:
    if not argument.startswith('-'):
      return f'the argument {argument!r} is one too many'
    name = argument.partition('=')[0]
    flags = {flag.lstrip('-'): flag for flag in self._option_string_actions}
    near = difflib.get_close_matches(name.lstrip('-'), flags, n=1)
    hint = f'; did you mean {flags[near[0]]}?' if near else ''
    return f'there is no flag {name}{hint}'

  def error(self, message: str) -> NoReturn:
    """Raises UserError with `message` and a hint to --help."""
    joint = ' ' if message.endswith('?') else '; '
    raise config_lib.UserError(f'{message}{joint}--help lists all flags')


class _Once(argparse.Action):
  """An action that stores a value given as an argument or a flag, not both."""

  def __call__(self, parser, namespace, values, option_string=None):
    if values is self.default:  # An argument that was left out.
      return
    if getattr(namespace, self.dest) is not self.default:
      raise config_lib.UserError(
          f'--{self.dest} is given twice, as {getattr(namespace, self.dest)} '
          f'and as {values}; leave one of them out')
    setattr(namespace, self.dest, values)


def add_config(parser: Parser, what: str, default: str | None = None) -> None:
  """Adds an argument and the flag --config for a config; users give one.

  `what` says in the help what the config is for; its path or name goes to
  `gin_config.load`.
  """
  if default is not None:
    what += f' (default: {default})'
  parser.add_argument(
      'config', nargs='?', action=_Once, default=default, metavar='CONFIG.gin',
      help=f'{what}; a file, or a shipped config such as catch')
  parser.completers['config'] = shipped.config_names
  parser.add_argument('--config', action=_Once, default=default,
                      metavar='CONFIG.gin', help='the same as a flag')


def add_gin_binding(parser: argparse.ArgumentParser,
                    what: str = 'changes one value',
                    example: str = 'LearnerConfig.batch_size = 16') -> None:
  """Adds the flag --gin_binding, whose values `gin_config.load` reads."""
  parser.add_argument('--gin_binding', action='append', default=[],
                      metavar=f'"{example}"', help=f'{what}; may be repeated')
