"""The shared replay as a program."""

import argparse
import contextlib
import signal
from typing import List

from impala_tf import config as config_lib
from impala_tf.cli.roles import flags as role_flags
from impala_tf.roles import beginning
from impala_tf.runs import gin_config
from impala_tf.runs import run_directory
from impala_tf.runs import sharing
from impala_tf.runtime import child as child_lib
from impala_tf.storage import files


def run(args: argparse.Namespace) -> int:
  """Serves the replay until a signal comes; returns the exit code."""
  config = gin_config.load(args.config, args.gin_binding)
  beginning.check_names(config)
  sharing.check_sampling(config)
  if config.replay.survives_resume and not args.run_dir:
    raise config_lib.UserError(
        'ReplayConfig.survives_resume needs --run_dir of the replay, where it '
        'is saved')
  say = role_flags.make_say(args)
  port = role_flags.free_port(args.address)
  with contextlib.ExitStack() as stack:
    if args.run_dir and args.supervised:  # The supervisor has claimed it.
      files.make_directory(args.run_dir)
    elif args.run_dir:
      stack.enter_context(run_directory.claim(args.run_dir, config))
    if not args.supervised:
      say(beginning.open_port(port))
    # Here, since it imports TensorFlow, which takes seconds.
    from impala_tf.roles import replay_server
    signals: List[int] = []
    child_lib.note_signals(signals, args.supervised)
    if args.supervised:
      child_lib.stop_with_parent(lambda: signals.append(signal.SIGTERM))
    replay_server.run(
        config, replay_server.Place(
            port, args.num_agents, role_flags.absent_agents(args),
            args.run_dir), lambda: bool(signals), say)
  return 128 + signals[0]
