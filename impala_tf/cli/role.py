"""Runs one role of a run: learner, actor, evaluator or replay.

Roles find each other by the learner's address, and may start in any order. Each
waits for its peers, names them, and gives up after --wait_secs. Actors and
evaluators take the config from the learner. Training on one machine starts the
same roles as child processes. Several agents may share a replay, which is a
role with its own address.

Actors and evaluators have nothing to save and do not end by themselves: a
signal has them close their environments and end.
"""

import argparse
import contextlib
import os
import sys
import time
from typing import Callable, Mapping

from absl import flags
from absl import logging

from impala_tf.cli import program
from impala_tf.cli.roles import flags as role_flags
from impala_tf.cli.roles import peers
from impala_tf.cli.roles import servers
from impala_tf.roles import beginning
from impala_tf.runtime import child
from impala_tf.runtime import gpus
from impala_tf.runtime import user_modules
from impala_tf.runtime import waiting

_GRACE_SECS = 5.
_ROLES = {'learner': servers.run_learner, 'actor': peers.run_actor,
          'evaluator': peers.run_evaluator, 'replay': servers.run_replay}
_PEERS = ('actor', 'evaluator')  # Of a learner.


def run(args: argparse.Namespace,
        roles: Mapping[str, Callable[[argparse.Namespace], int | None]] =
        _ROLES, grace_secs: float = _GRACE_SECS) -> int:
  """Calls the function in `roles` for `args.role`; returns the exit code."""
  try:
    role_flags.check(args)
    user_modules.load(args.modules)
    with peers.playing(args.supervised) if args.role in _PEERS else (
        contextlib.nullcontext()):
      return roles[args.role](args) or 0
  except waiting.PeerLost:  # Not as below: nothing can be waited for.
    raise
  except waiting.PeerMissing as error:
    raise waiting.PeerMissing(
        f'{error}; is it running, and can the machines reach each other? (to '
        'wait longer: --wait_secs; in `train` ActorConfig.env_timeout_secs)'
    ) from error
  except OSError as error:  # ConnectionError is one.
    is_peer = args.role in _PEERS and isinstance(error, ConnectionError)
    if is_peer and not args.supervised:
      # As a new program with nothing of the old.
      lost = f'the learner at {args.address}'
      if args.replay_address is not None:
        lost += f', or the replay at {args.replay_address}'
      role_flags.make_say(args)(f'lost {lost}: {error}; starting over')
      sys.stderr.flush()
      os.execv(sys.executable,
               [sys.executable, '-m', 'impala_tf', 'role', *sys.argv[1:]])
    if not is_peer:
      raise
    logging.error('%s', error)
    # Most likely the learner has ended, and the supervisor is about to end this
    # process too. It would take an exit before that for a failure.
    time.sleep(grace_secs)
    return 1


def choose_gpus(args: argparse.Namespace) -> None:
  """Divides the machine's GPUs among its learners; other roles see none."""
  if args.role != 'learner':
    gpus.hide()
    return
  hosts = [address.rpartition(':')[0] for address in
           (args.learners or args.address).split(',')]
  own = hosts[min(args.task, len(hosts) - 1)]
  # On Ray, where addresses are not localhost, Ray has assigned the GPUs.
  if not args.supervised or own == 'localhost':
    gpus.take(hosts[:args.task].count(own), hosts.count(own))


@program.returning_exit_code
def main() -> int:
  """Runs the role that the command line names; returns the exit code."""
  args = role_flags.make_parser(__doc__).parse_args()
  beginning.check_reverb()
  choose_gpus(args)
  if args.supervised:
    child.refuse_breakpoints()
  flags.FLAGS.mark_as_parsed()  # Else absl warns of early logging.
  logging.set_verbosity(logging.INFO)
  # Else above the progress line.
  if args.supervised or args.role != 'learner':
    logging.use_absl_handler()
  return run(args)
