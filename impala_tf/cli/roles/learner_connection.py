"""The learner that an actor or evaluator connects to."""

import argparse
import os
import signal
from typing import Callable, Optional

from impala_tf import config as config_lib
from impala_tf.cli.roles import flags as role_flags
from impala_tf.config import fingerprint as fingerprint_lib
from impala_tf.runs import gin_config
from impala_tf.runtime import child as child_lib
from impala_tf.runtime import stop_signals
from impala_tf.runtime import waiting as waiting_lib
from impala_tf.storage import files
from impala_tf.suites import levels


def config_path(args: argparse.Namespace) -> Optional[str]:
  """Returns the path of the config in the flags; None if there is none."""
  if args.config or not args.run_dir:
    return args.config
  return gin_config.config_path(args.run_dir)


class LearnerConnection:
  """Waits for the learner and takes its config."""

  def __init__(self, args: argparse.Namespace, say: Callable[[str], None]):
    self._args = args
    self._say = say
    self._waiting = waiting_lib.Waiting(
        f'the learner at {args.address}', args.wait_secs, say)
    self._config: Optional[config_lib.Config] = None
    self.poll = self._waiting.poll
    self.poll()

  def config(self) -> config_lib.Config:
    """Waits for the learner; returns its config.

    Raises:
      PeerMissing: if the learner has not come in time.
      UserError: if its config is not that of the flags.
    """
    if self._config is None:
      # First without TensorFlow, as it may take long.
      waiting_lib.for_port(self._args.address, self.poll)
      from impala_tf.comms import config_table
      config = config_table.wait_for_config(self._args.address, self.poll)
      self._say(f'got the config of '
                f'{levels.short_name(config.environment.level)} '
                f'({fingerprint_lib.of_config(config)}) from '
                f'{self._args.address} after {self._waiting.restart():.0f} s')
      self._check(config)
      self._config = config
    return self._config

  def _check(self, config: config_lib.Config) -> None:
    path = config_path(self._args)
    if path is None:
      return
    if not files.exists(path) and not self._args.config:
      raise config_lib.UserError(
          f'{self._args.run_dir} holds no config.gin, so it is not the run '
          f'directory of the learner at {self._args.address}; leave out '
          '--run_dir, and give an evaluator --output instead')
    changed = gin_config.differences(
        gin_config.load(path, self._args.gin_binding), config)
    if changed:
      raise config_lib.UserError(
          f'the learner at {self._args.address} has another config than '
          f'{path}: {", ".join(changed)}; connect to another, or leave out '
          '--config and --run_dir to take what it has')


def begin(args: argparse.Namespace) -> Callable[[str], None]:
  """Has signals end a role at once, since it has nothing to save.

  Returns the function that prints the role's lines.
  """
  if args.supervised:
    child_lib.stop_with_parent(lambda: os._exit(0))
  else:
    for signum in stop_signals.STOP_SIGNALS:
      signal.signal(signum, lambda signum, unused_frame: os._exit(128 + signum))
  return role_flags.make_say(args)
