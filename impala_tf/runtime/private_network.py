"""Starts a program that no other machine can reach.

    python -m impala_tf.runtime.private_network MODULE ARGUMENTS

runs the module in a new network namespace (Linux) with a loopback interface
only: Reverb listens on all interfaces, without authentication. If the system
forbids that, the module runs as usual and can ask for the reason.

Only a process with a single thread may enter such a namespace, so this program
does before the module is loaded. Standard library only.
"""

import ctypes
import fcntl
import os
import pathlib
import socket
import struct
import sys

# Holds a process id, so that no child takes it for its own result, and the
# obstacle, if any.
_RESULT = 'IMPALA_TF_NOT_PRIVATE'

# <linux/sched.h>, <linux/sockios.h>, <net/if.h>
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_IFREQ = '16sh22x'

# Parts of the messages of errors of connections and of names.
_UNREACHABLE = ('Connection refused', 'Network is unreachable',
                'name resolution', 'Name or service not known')

_is_private = False  # Known once `obstacle` was asked.
_libc = ctypes.CDLL(None, use_errno=True)


def is_settled() -> bool:
  """Returns whether this module started this program, private or not."""
  return os.environ.get(_RESULT, '').partition(' ')[0] == str(os.getpid())


def obstacle() -> str:
  """Returns why this program's network is not private; empty if it is.

  May be called once, and only if `is_settled`.
  """
  global _is_private
  cause = os.environ.pop(_RESULT).partition(' ')[2]
  _is_private = not cause
  return cause


def explained(message: str) -> str:
  """Adds a hint to a connection error that the private network may cause."""
  if not _is_private or not any(sign in message for sign in _UNREACHABLE):
    return message
  return (f'{message}; if that is a server outside of the run, --network=open '
          'lets it be reached: this run has a private network, which reaches '
          'no server of this machine or of others (docs/cluster.md)')


def restart_within(module: str, *arguments: str) -> None:
  """Restarts this program, `module`, in a private network, adding arguments."""
  sys.stdout.flush()
  os.execv(sys.executable, [sys.executable, '-m',
                            'impala_tf.runtime.private_network',
                            module, *arguments, *sys.argv[1:]])


def _unshare(what: int) -> None:
  if _libc.unshare(what):
    code = ctypes.get_errno()
    raise OSError(code, f'unshare: {os.strerror(code)}')


def _enter() -> None:
  """Moves this process to a private network; OSError may leave it half-way."""
  uid, gid = os.geteuid(), os.getegid()
  if uid == 0:
    # Root needs no user namespace, and in one it would lose its power over
    # files of other users.
    _unshare(_CLONE_NEWNET)
  else:
    _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
    process = pathlib.Path('/proc/self')
    (process / 'setgroups').write_text('deny')
    (process / 'uid_map').write_text(f'{uid} {uid} 1')
    (process / 'gid_map').write_text(f'{gid} {gid} 1')
  with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_IFREQ, b'lo', _IFF_UP))
  # Do processes reach each other there?
  with socket.create_server(('127.0.0.1', 0)) as server:
    socket.create_connection(server.getsockname(), timeout=5).close()


def _try() -> str:
  """Returns why `_enter` fails, or ''; a child tries: there is no way back."""
  reader, writer = os.pipe()
  child = os.fork()
  if child == 0:
    try:
      _enter()
    except Exception as error:
      os.write(writer, str(error).encode())
    finally:
      os._exit(0)
  os.close(writer)
  with open(reader, 'rb') as file:
    cause = file.read().decode()
  os.waitpid(child, 0)
  return cause


def main() -> None:
  """Replaces this program by the module, in a private network if possible."""
  cause = _try()
  if not cause:
    _enter()
  os.environ[_RESULT] = f'{os.getpid()} {cause}'
  os.execv(sys.executable, [sys.executable, '-m', *sys.argv[1:]])


if __name__ == '__main__':
  main()
