"""A program for engines to run: `mode name directory`.

It leaves `pid_NAME_PID` in the directory when it starts, and `times_NAME` when
it ends well: when it started, when it ended, and what MY_VARIABLE was.
"""

import os
import pathlib
import signal
import sys
import time

_SHORT_SECS, _LONG_SECS = 0.5, 600.


def _wait_for_starts(directory, number):
  while len(list(directory.glob('pid_*'))) < number:
    time.sleep(0.05)


def _main(mode, name, directory):
  started = time.monotonic()
  if mode == 'stubborn':
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
  (directory / f'pid_{name}_{os.getpid()}').touch()
  is_second = len(list(directory.glob(f'pid_{name}_*'))) > 1
  if mode == 'bad':
    sys.exit('error: it was bad')
  if mode.startswith('after_'):  # So many have been started, of whatever name.
    _wait_for_starts(directory, int(mode[len('after_'):]))
  is_short = mode == 'short' or mode.startswith('after_') or (
      mode == 'second' and is_second)  # Started for the second time.
  time.sleep(_SHORT_SECS if is_short else _LONG_SECS)
  (directory / f'times_{name}').write_text(
      f'{started} {time.monotonic()} {os.environ["MY_VARIABLE"]}')


if __name__ == '__main__':
  _main(sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]))
