"""Numbers of the copies of an environment, which their constructors can read.

While number i of a run is constructed, the environment variable
IMPALA_TF_ENV_INDEX is i, from which it can derive ports and directories.
"""

import contextlib
import os
import sys
from typing import Iterator

VARIABLE = 'IMPALA_TF_ENV_INDEX'

_numbers = range(sys.maxsize)


def numbers() -> range:
  """Returns the numbers of the copies that are made now, in their order."""
  return _numbers


@contextlib.contextmanager
def numbered(of_copies: range) -> Iterator[None]:
  """Gives numbers to the copies that are made meanwhile."""
  global _numbers
  before, _numbers = _numbers, of_copies
  try:
    yield
  finally:
    _numbers = before


@contextlib.contextmanager
def constructing(number: int) -> Iterator[None]:
  """Sets the variable `VARIABLE` while copy `number` is constructed."""
  os.environ[VARIABLE] = str(number)
  try:
    yield
  finally:
    os.environ.pop(VARIABLE, None)
