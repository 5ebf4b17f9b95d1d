"""Names of commands, as the user types them; standard library only."""

import os
import shlex

_SCRIPTS = 'IMPALA_TF_SCRIPTS'  # Directory of the scripts, which set it.


def command(verb: str) -> str:
  """Returns './launch/train.sh' or 'impala-tf train' for the verb 'train'."""
  scripts = os.environ.get(_SCRIPTS)
  if scripts is None:
    return f'impala-tf {verb}'
  return f'{shlex.quote(scripts)}/{verb}.sh'
