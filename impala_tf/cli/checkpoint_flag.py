"""The flag --checkpoint: which checkpoint of a run is read."""

import argparse
from typing import Union

from impala_tf import config as config_lib

Which = Union[str, int]  # As `impala_tf.storage.checkpoint.find` takes it.


def add(parser: argparse.ArgumentParser) -> None:
  """Adds the flag; its value is for `parse`."""
  parser.add_argument('--checkpoint', default='newest', metavar='best',
                      help='which parameters: newest; best, by the mean return '
                      'of 100 full episodes of training; or N, the number of '
                      'updates in the name of a checkpoint (default: '
                      '%(default)s)')


def parse(text: str) -> Which:
  """Reads a value of the flag.

  Raises:
    UserError: where it names no checkpoint.
  """
  if text in ('newest', 'best'):
    return text
  if text.isascii() and text.isdecimal():
    return int(text)
  raise config_lib.UserError(
      f'--checkpoint must be newest, best or a number of updates, but is '
      f'{text!r}')
