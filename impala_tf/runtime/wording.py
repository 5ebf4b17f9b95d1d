"""Counts and names of commands in messages; standard library only."""

import os
import shlex

_SCRIPTS = 'IMPALA_TF_SCRIPTS'  # Directory of the scripts, which set it.


def counted(number: int, noun: str) -> str:
  """Formats a count, such as '1 process' or '2 processes'."""
  ending = '' if number == 1 else 'es' if noun.endswith('s') else 's'
  return f'{number:d} {noun}{ending}'


def command(verb: str) -> str:
  """Returns './launch/train.sh' or 'impala-tf train' for the verb 'train'."""
  scripts = os.environ.get(_SCRIPTS)
  if scripts is None:
    return f'impala-tf {verb}'
  return f'{shlex.quote(scripts)}/{verb}.sh'
