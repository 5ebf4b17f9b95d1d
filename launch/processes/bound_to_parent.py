"""Starts a program that is killed when its parent dies.

    python -m launch.processes.bound_to_parent PARENT MODULE ARGUMENTS

PARENT is the process id of the parent. To ask the kernel for that in a child
between fork and exec is not safe in a parent with many threads; a program of
its own can do it at leisure. It is not asked to stop: whoever has taken its
place elsewhere already must not find it still writing.

Standard library only.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main() -> None:
  """Does not return."""
  parent, *command = sys.argv[1:]
  ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
  if os.getppid() != int(parent):  # It died before that could be told.
    os._exit(1)
  signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Ray has SIGINT blocked.
  os.execv(sys.executable, [sys.executable, '-m', *command])


if __name__ == '__main__':
  main()
