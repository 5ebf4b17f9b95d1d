"""Names of the commands, in the form in which the user started this one.

Standard library only.
"""

import os
import shlex

_SCRIPTS = 'IMPALA_TF_SCRIPTS'  # Directory of the scripts, which set it.


def command(verb: str) -> str:
  """Returns './launch/train.sh' or 'impala-tf train', for a shell.

  Args:
    verb: 'train'.
  """
  scripts = os.environ.get(_SCRIPTS)
  if scripts is None:
    return f'impala-tf {verb}'
  return f'{shlex.quote(scripts)}/{verb}.sh'
