"""Starts a program that receives a signal when its parent dies.

    python -m impala_tf.runtime.bound_to_parent PARENT SIGNAL MODULE ARGUMENTS

PARENT is the parent's process id, SIGNAL a name such as SIGKILL. A parent with
many threads cannot safely make this request between fork and exec, so this
program makes it. Standard library only.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def bind(parent: int, signum: int) -> None:
  """Makes the kernel signal this process when its parent's thread ends."""
  ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum)
  if os.getppid() != parent:  # It died before the kernel was asked.
    os._exit(1)


def main() -> None:
  """Binds this process to its parent, and replaces it by the module."""
  parent, signal_name, *command = sys.argv[1:]
  bind(int(parent), signal.Signals[signal_name])
  signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Ray has SIGINT blocked.
  os.execv(sys.executable, [sys.executable, '-m', *command])


if __name__ == '__main__':
  main()
