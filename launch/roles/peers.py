"""Actors and evaluators as programs of their own; see `launch/role.sh`."""

import argparse
import os
import secrets
import signal
from typing import Callable, Optional

from impala_tf import config as config_lib
from impala_tf import config_fingerprint
from impala_tf.processes import waiting as waiting_lib
from impala_tf.storage import files
from impala_tf.suites import levels
from launch.processes import child as child_lib
from launch.processes import stop_signals
from launch.roles import flags as role_flags
from launch.run import gin_config
from launch.run import program
from launch.run import run_directory


def _config_path(args: argparse.Namespace) -> Optional[str]:
  """Of the config that the learner is to have; None where flags name none."""
  if args.config or not args.run_dir:
    return args.config
  return gin_config.config_path(args.run_dir)


class _Learner:
  """The learner that an actor or evaluator connects to."""

  def __init__(self, args: argparse.Namespace, say: Callable[[str], None]):
    self._args = args
    self._say = say
    self._waiting = waiting_lib.Waiting(
        f'the learner at {args.address}', args.wait_secs, say)
    self._config: Optional[config_lib.Config] = None
    self.poll = self._waiting.poll
    self.poll()  # Says so at once.

  def config(self) -> config_lib.Config:
    """Waits for it; returns its config.

    Raises:
      PeerMissing: where it has not come.
      UserError: where it has another config than the flags name.
    """
    if self._config is None:
      # First without TensorFlow, as it may take long.
      waiting_lib.for_port(self._args.address, self.poll)
      from impala_tf.transport import config_table
      config = config_table.wait_for_config(self._args.address, self.poll)
      self._say(f'got the config of '
                f'{levels.short_name(config.environment.level)} '
                f'({config_fingerprint.of_config(config)}) from '
                f'{self._args.address} after {self._waiting.restart():.0f} s')
      self._check(config)
      self._config = config
    return self._config

  def _check(self, config: config_lib.Config) -> None:
    path = _config_path(self._args)
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


def _end_at_once(signum: int, unused_frame):
  os._exit(128 + signum)


def _prepare_to_end(args: argparse.Namespace) -> None:
  """There is nothing to save."""
  if args.supervised:
    child_lib.stop_with_parent(lambda: os._exit(0))
  else:
    for signum in stop_signals.STOP_SIGNALS:
      signal.signal(signum, _end_at_once)


def run_actor(args: argparse.Namespace) -> None:
  """Plays until a signal comes, or the learner goes (ConnectionError)."""
  say = role_flags.make_say(args)
  _prepare_to_end(args)
  if args.supervised:  # On the learner's machine.
    child_lib.yield_to_others()
  learner = _Learner(args, say)
  # Where the config is known, environments are made while the learner starts.
  path = _config_path(args)
  if path is not None and files.exists(path):
    config = gin_config.load(path, args.gin_binding)
  else:
    config = learner.config()
  from impala_tf import experiment
  from impala_tf.monitoring import profiling
  seed = secrets.randbits(31) if args.seed is None else args.seed
  profile = None
  if args.profile:
    profile = profiling.HopTimesWriter(args.run_dir, f'actor_{seed}')
  is_first = True

  def on_unroll(secs):
    nonlocal is_first
    if is_first:
      say('sent its first unrolls')
    is_first = False
    if profile:
      profile.add_unroll(secs)

  experiment.run_actor(config, args.address, seed, args.task, learner.config,
                       learner.poll, on_unroll)


def run_evaluator(args: argparse.Namespace) -> None:
  """Like `run_actor`."""
  say = role_flags.make_say(args)
  _prepare_to_end(args)
  if args.supervised:
    child_lib.yield_to_others()
  output = args.output or os.path.join(args.run_dir, program.EVALUATION)
  run_directory.reach(output)
  learner = _Learner(args, say)
  config = learner.config()
  from impala_tf.architectures import evaluator
  files.make_directory(output)

  def on_row(row):
    error = row.get('standard_error')
    say(f'{row["frames"]:,d} frames: return {row["episode_return"]:.2f}'
        + (f' ± {error:.2f}' if error is not None else '')
        + f' ({row["episodes"]} games)')

  evaluator.run_evaluator(config, args.address, output,
                          args.seed or args.task, learner.poll, on_row)
