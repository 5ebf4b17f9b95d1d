"""Programs of the roles that connect to a learner: actor and evaluator."""

import argparse
import contextlib
import os
import pathlib
import secrets
import signal
from typing import Any, Iterator

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.cli.roles import flags as role_flags
from impala_tf.roles import beginning
from impala_tf.runs import gin_config
from impala_tf.runs import run_directory
from impala_tf.runtime import child as child_lib
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import stop_signals
from impala_tf.runtime import waiting as waiting_lib
from impala_tf.runtime import wording
from impala_tf.storage import files
from impala_tf.suites import levels


class LearnerConnection:
  """A connection of an actor or evaluator to its learner."""

  def __init__(self, args: argparse.Namespace):
    self._args = args
    self.say = role_flags.make_say(args)
    self._waiting = waiting_lib.Waiting(
        f'the learner at {args.address}', args.wait_secs, self.say)
    self._config: config_lib.Config | None = None
    self.poll = self._waiting.poll
    self.poll()

  def config(self) -> config_lib.Config:
    """Waits for the learner's config; raises UserError if the flags differ."""
    if self._config is None:
      # First without TensorFlow, as it may take long.
      waiting_lib.for_port(self._args.address, self.poll)
      from impala_tf.comms import config_table
      config = config_table.wait_for_config(self._args.address, self.poll)
      self.say(f'got the config of '
               f'{levels.short_name(config.environment.level)} '
               f'({config_lib.full_fingerprint(config)}) from '
               f'{self._args.address} after {self._waiting.restart():.0f} s')
      path = run_directory.config_path(self._args.config, self._args.run_dir)
      changed = path and gin_config.differences(
          gin_config.load(path, self._args.gin_binding), config)
      if changed:
        raise config_lib.UserError(
            f'the learner at {self._args.address} has another config than '
            f'{path}: {", ".join(changed)}; connect to another, or leave out '
            '--config and --run_dir (of an evaluator: give --output) to take '
            'what it has')
      self._config = config
    return self._config

  def control(self, config: config_lib.Config, profile: Any = None
              ) -> control_lib.ActorControl:
    """Makes the callbacks that the actor's loop calls in this process."""
    is_shared = algorithms.architecture(config) == algorithms.SHARED_PARAMETERS
    first = [f'learned from {child_lib.FIRST} segment' if is_shared else
             f'sent {child_lib.FIRST} unrolls']

    def wait_for_learner():
      self.config()
      address = self._args.replay_address
      if address is not None:
        waiting_lib.for_port(address, waiting_lib.Waiting(
            f'the replay at {address}', self._args.wait_secs, self.say).poll)

    def on_unroll(hop_secs):
      while first:
        self.say(first.pop())
      if profile is not None:
        profile.add_unroll(hop_secs)

    return control_lib.ActorControl(wait_for_learner, self.poll, on_unroll)


@contextlib.contextmanager
def playing(supervised: bool) -> Iterator[None]:
  """Makes a context that signals, and the supervisor's end, interrupt."""
  with stop_signals.interrupting():
    if supervised:  # On the learner's machine.
      child_lib.stop_with_parent(lambda: os.kill(os.getpid(), signal.SIGTERM))
      child_lib.yield_to_others()
    yield


def run_actor(args: argparse.Namespace) -> None:
  """Plays until KeyboardInterrupt, or ConnectionError (learner lost)."""
  learner = LearnerConnection(args)
  # If the config is known, TensorFlow is imported while the learner starts.
  path = run_directory.config_path(args.config, args.run_dir)
  config = (learner.config() if path is None else
            gin_config.load(path, args.gin_binding))
  # Here, since they import TensorFlow, which takes seconds.
  from impala_tf.runs import profiling
  architecture = beginning.import_architecture(config)
  seed = secrets.randbits(31) if args.seed is None else args.seed
  profile = (profiling.HopTimesWriter(args.run_dir, f'actor_{seed}')
             if args.profile else None)
  architecture.run_actor(
      config, args.address, seed, args.task, learner.control(config, profile),
      role_flags.sharing(args), args.core)


def run_evaluator(args: argparse.Namespace) -> None:
  """Evaluates until KeyboardInterrupt, or ConnectionError (learner lost)."""
  output = files.absolute(
      args.output or os.path.join(args.run_dir, run_directory.EVALUATION))
  run_directory.reach(output)
  if not files.is_url(output):
    run_directory.check_writable(
        pathlib.Path(output), '--output' if args.output else '--run_dir')
  learner = LearnerConnection(args)
  config = learner.config()
  if not args.output and not run_directory.config_path(None, args.run_dir):
    raise config_lib.UserError(
        f'{args.run_dir} holds no run; correct --run_dir, or give --output')
  # Here, since it imports TensorFlow, which takes seconds.
  from impala_tf.roles import evaluation
  files.make_directory(output)

  def on_row(row):
    error = row.get('standard_error')
    spread = f' ± {error:.2f}' if error is not None else ''
    learner.say(f'{row["frames"]:,d} frames: return '
                f'{row["episode_return"]:.2f}{spread} '
                f'({wording.counted(row["episodes"], "game")})')

  # A supervised one is alone, and must not fail for a lock that outlives it.
  is_free = args.supervised or files.is_url(output)
  with contextlib.nullcontext() if is_free else run_directory.locking(
      output, f'another evaluator writes to {output}; give another --output'):
    evaluation.run_evaluator(
        config, args.address, output,
        args.task if args.seed is None else args.seed, learner.poll, on_row)
