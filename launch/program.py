"""What the programs have in common: how they end."""

import sys
from typing import Callable, Optional

from impala_tf import config as config_lib

BAD_INPUT = 2


def run(action: Callable[[], Optional[int]]) -> int:
  """Runs a program; of bad input it says one line.

  Args:
    action: returns the exit code, or None for 0.

  Returns:
    The exit code.
  """
  try:
    return action() or 0
  except config_lib.UserError as error:
    print(f'error: {error}', file=sys.stderr)
    return BAD_INPUT
