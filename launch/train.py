"""Trains an agent on this machine; see `launch/train.sh`.

Exit codes: 0 all frames are learned from, 2 bad input, 130 Ctrl-C, 143 asked to
terminate, 1 anything else.
"""

import argparse
import contextlib
import math
from typing import List, NamedTuple, Optional, Sequence

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.processes import cores
from impala_tf.processes import host as host_lib
from impala_tf.processes import ports
from impala_tf.processes import sizing
from impala_tf.processes import user_modules
from impala_tf.processes import waiting
from launch.processes import local
from launch.processes import stop_signals
from launch.roles import flags as role_flags
from launch.run import command_line
from launch.run import gin_config
from launch.run import knobs
from launch.run import program
from launch.run import progress
from launch.run import role_commands
from launch.run import run_directory
from launch.run import time_budget
from launch.run import tracking
from launch.run import warm_start

_DEFAULT_CONFIG = 'configs/atari/pong.gin'


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(prog='train.sh', description=__doc__)
  command_line.add_config(
      parser, 'what to train (default: as in --run_dir, or '
      f'{_DEFAULT_CONFIG})')
  parser.add_argument('--run_dir', help='where logs and checkpoints go, a '
                      'path or a URL that TensorFlow opens; an existing run '
                      'is resumed (default: a new one in runs/)')
  command_line.add_gin_binding(parser)
  run_directory.add_allow_changes(parser)
  warm_start.add_flag(parser)
  parser.add_argument('--port', type=int,
                      help='of the Reverb server, for others to connect to '
                      '(default: a free one); with several learners, the '
                      'first of one port each')
  role_flags.add_sharing(parser)
  program.add_import(parser)
  program.add_network(parser)
  parser.add_argument('--evaluate', action='store_true',
                      help='play full games beside training, and log to '
                      'evaluation/ in the run directory')
  tracking.add_flag(parser)
  parser.add_argument('--profile', action='store_true',
                      help="record a few updates for TensorBoard's profiler, "
                      'and print at the end where the time went')
  parser.add_argument('--list_knobs', action='store_true',
                      help='print all knobs with defaults and meanings, and '
                      'do nothing else')
  return parser.parse_args()


class _Ports(NamedTuple):
  """Ports at which the processes of a run find one another.

  Attributes:
    reverb: port of each learner's Reverb server, for its actors.
    tensorflow: port of each learner for the others; none for a single learner.
  """
  reverb: List[int]
  tensorflow: List[int]


def _choose_ports(first: Optional[int], num_learners: int) -> _Ports:
  """Finds free ports for all learners.

  Args:
    first: first port of the Reverb servers; None for any free ones.
    num_learners: how many learners there are.

  Raises:
    UserError: where a port that was asked for is taken.
  """
  try:
    if first is None:
      reverb = ports.choose_free(num_learners)
    else:
      reverb = [ports.choose(first + i) for i in range(num_learners)]
  except OSError as error:
    raise config_lib.UserError(f'--port: {error}') from error
  if num_learners == 1:
    return _Ports(reverb, [])
  return _Ports(reverb, ports.choose_free(num_learners, besides=reverb))


def _train_in_processes(args: argparse.Namespace, config: config_lib.Config,
                        run_dir: str, chosen: _Ports, core_of: Sequence[int],
                        line: progress.ProgressLine):
  """Trains with learner and actors as children.

  Args:
    args: flags.
    config: config of the run.
    run_dir: directory of the run.
    chosen: ports of the learners.
    core_of: core that each actor stays on; empty where they move freely.
    line: shows the progress.

  Returns:
    The signal that ended the run, or None.
  """
  # An environment that hangs is noticed after its timeout, and may take as long
  # to start anew.
  wait_secs = role_flags.WAIT_SECS + 2 * config.actor.env_timeout_secs
  addresses = [f'localhost:{port}' for port in chosen.reverb]
  joint_addresses = [f'localhost:{port}' for port in chosen.tensorflow]
  run_dir_flag = f'--run_dir={run_dir}'
  flags = [run_dir_flag, *role_flags.sharing_flags(args)]
  if args.profile:
    flags.append('--profile')
  num_updates = run_directory.newest_checkpoint(run_dir) or 0

  def actor(task, attempt):
    core_flags = [f'--core={core_of[task]}'] if core_of else []
    return role_commands.actor(
        addresses[task % len(addresses)], task, attempt, *flags, *core_flags,
        num_updates=num_updates)

  def evaluator(attempt):
    return role_commands.evaluator(addresses[0], attempt, run_dir_flag)

  newest = progress.NewestRow(run_dir)
  return local.make_supervisor(
      learner_commands=[
          role_commands.learner(address, task, joint_addresses, *flags,
                                f'--wait_secs={wait_secs:g}')
          for task, address in enumerate(addresses)],
      actor_command=actor,
      num_actors=(0 if config.learner_plays else
                  sizing.fit(config).actor.num_actors),
      log_dir=run_directory.logs_path(run_dir),
      max_restarts=config.actor.max_restarts,
      restart_window_secs=config.actor.restart_window_secs,
      evaluator_command=evaluator if args.evaluate else None).run(
          lambda: newest.show(line))


class _Stopped(Exception):
  """The program was asked to stop before there was anything to save."""


class _Host(host_lib.LearnerHost):
  """This process where actor and learner take turns in it."""

  def __init__(self, signals: stop_signals.StopSignals,
               line: progress.ProgressLine):
    self._signals = signals
    self._waiting, self._pausing = (
        waiting.Waiting(peer, limit_secs, lambda text: print(text, flush=True))
        for peer, limit_secs in (('unrolls', role_flags.WAIT_SECS),
                                 ('slower agents', math.inf)))
    self.on_row = line.show

  def should_stop(self) -> bool:
    return self._signals.first is not None

  def before_batch(self) -> None:
    self._waiting.restart()
    self._pausing.restart()

  def on_wait(self, cause: str = '') -> None:
    if cause:
      self._waiting.poll(cause)

  def on_pause(self, cause: str) -> None:
    self._pausing.poll(cause)

  def wait_for_replay(self, address: str) -> None:
    """Returns once the replay listens; raises _Stopped, PeerMissing."""

    def poll(cause):
      if self.should_stop():
        raise _Stopped
      self._waiting.poll(f'the replay at {address} is not there ({cause})')

    waiting.for_port(address, poll)


def _train_in_this_process(args: argparse.Namespace, config: config_lib.Config,
                           run_dir: str, line: progress.ProgressLine
                           ) -> Optional[int]:
  """Trains in turns; returns the signal that ended the run, if one did."""
  # Here, after all checks, since it imports TensorFlow, which takes seconds.
  from impala_tf.architectures import in_process
  with stop_signals.StopSignals() as signals, contextlib.suppress(_Stopped):
    host = _Host(signals, line)
    if args.replay_address is not None:
      host.wait_for_replay(args.replay_address)
    in_process.run(
        config, run_dir, host, args.replay_address, args.agent or 0)
  return signals.first


def _run(args: argparse.Namespace) -> int:
  if args.list_knobs:
    print(knobs.as_text(knobs.sections()), end='')
    return 0
  program.check_reverb()
  tracking.start(args.track)
  why_public = program.why_public(
      args.network, args.port is not None or args.replay_address is not None,
      args.run_dir, args.init_from)
  if why_public is None:
    why_public = program.enter_private_network('launch.train', args.network)
  user_modules.load(args.modules)
  config_path = run_directory.config_path(args.config, args.run_dir)
  config = gin_config.load(config_path or _DEFAULT_CONFIG, args.gin_binding)
  for flag in ('profile', 'evaluate'):
    if getattr(args, flag) and config.experiment.in_process:
      raise config_lib.UserError(
          f'--{flag} needs processes of their own for learner and actors; '
          'leave it out, or set ExperimentConfig.in_process = False')
  if args.profile and config.learner_plays:
    raise config_lib.UserError(
        '--profile tells how unrolls come from actors to the learner, but with '
        "ActorConfig.synchronisation = 'step' the learner plays by itself; "
        'leave it out')
  role_flags.check_sharing(args, config)
  program.check_names(config)
  if args.profile and (
      algorithms.architecture(config) == algorithms.SHARED_PARAMETERS):
    raise config_lib.UserError(
        '--profile tells how unrolls come from actors to the learner, but '
        f'workers of {config.experiment.algorithm!r} learn from them '
        'themselves; leave it out')
  sizing.fit(config)  # Refuses more levels than environments.
  chosen = _choose_ports(args.port, config.learner.num_learners)
  run_dir = args.run_dir or run_directory.fresh_path(config.environment.level)
  with run_directory.claim(run_dir, config, args.allow_changes) as resuming:
    program.show_beginning(config, run_dir, resuming)
    warm_start.begin(run_dir, args.init_from, resuming)
    program.show_network(
        [('Reverb', None)] if config.experiment.in_process else
        [('Reverb', port) for port in chosen.reverb] +
        [('TensorFlow', port) for port in chosen.tensorflow], why_public)
    with tracking.tracking(args.track, run_dir), progress.ProgressLine(
        config.experiment.total_frames) as line:
      if config.experiment.in_process:
        signum = _train_in_this_process(args, config, run_dir, line)
      else:
        program.show_logs(run_dir)
        with cores.claim(sizing.fit(config)) as core_of:
          signum = _train_in_processes(
              args, config, run_dir, chosen, core_of, line)
  if args.profile:
    time_budget.show(config, run_dir)
  return program.conclude(run_dir, signum)


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _run(_parse_args()))


if __name__ == '__main__':
  program.end(main())
