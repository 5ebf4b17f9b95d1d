"""Trains an agent on this machine, or resumes a run."""

import argparse
import contextlib
import os

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.cli.roles import flags as role_flags
from impala_tf.roles import beginning
from impala_tf.roles import local_run
from impala_tf.runs import profiling
from impala_tf.runs import progress
from impala_tf.runs import run_directory
from impala_tf.runs import tracking
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import leftovers
from impala_tf.runtime import output
from impala_tf.runtime import sizing
from impala_tf.runtime import user_modules
from impala_tf.storage import files

_DEFAULT_CONFIG = 'configs/atari/pong.gin'


def _train(args: argparse.Namespace, config: config_lib.Config, run_dir: str,
           chosen: local_run.Ports, line: progress.ProgressLine) -> int | None:
  """Trains in this process or in children; returns the stop signal, or None."""
  sharing = role_flags.sharing(args)
  if config.experiment.in_process:
    with leftovers.killed_at_end():
      return local_run.learn_here(
          config, control_lib.Endpoint(run_dir, sharing=sharing), line)
  newest = progress.NewestRow(run_dir)
  with local_run.supervisor(config, run_dir, chosen, sharing, args.profile,
                            args.evaluate) as supervisor:
    return supervisor.run(lambda: newest.show(line))


@program.returning_exit_code
def main() -> int:
  """Trains an agent on this machine; returns the exit code."""
  parser = command_line.Parser(description=__doc__)
  role_flags.add_training(parser, f', or {_DEFAULT_CONFIG}')
  parser.add_argument('--profile', action='store_true',
                      help="record a few updates for TensorBoard's profiler, "
                      'and print at the end where the time went')
  args = parser.parse_args()
  beginning.check_reverb()
  tracking.start(args.track)
  why_public = program.why_public('train', args, args.port is not None)
  user_modules.load(args.modules)
  config = role_flags.load_config(args, _DEFAULT_CONFIG)
  for flag in ('profile', 'evaluate', 'port'):
    if getattr(args, flag) and config.experiment.in_process:
      raise config_lib.UserError(
          f'--{flag} needs processes of their own for learner and actors; '
          'leave it out, or set ExperimentConfig.in_process = False')
  if args.profile and (config.learner_plays or algorithms.architecture(
      config) == algorithms.SHARED_PARAMETERS):
    raise config_lib.UserError(
        '--profile times unrolls on their way to the learner, but with '
        f'ExperimentConfig.algorithm = {config.experiment.algorithm!r} and '
        'ActorConfig.synchronisation = '
        f'{config.actor.synchronisation!r} there are none; leave it out')
  sizing.fit(config)  # Refuses more levels than environments.
  chosen = local_run.choose_ports(args.port, config.learner.num_learners)
  run_dir = args.run_dir or run_directory.fresh_path(config.environment.level)
  with local_run.begun(run_dir, config, chosen, why_public, args.allow_changes,
                       args.init_from):
    if args.profile:
      profiling.forget(run_dir)
    with tracking.tracking(args.track, run_dir), contextlib.ExitStack() as logs:
      # As those of children; a run behind a URL leaves nothing here.
      if config.experiment.in_process and not files.is_url(run_dir):
        logs.enter_context(output.libraries_in(
            os.path.join(run_directory.logs_path(run_dir), 'learner.log')))
      with progress.ProgressLine(config) as line:
        signum = _train(args, config, run_dir, chosen, line)
  if args.profile:
    profiling.show_time_budget(config, run_dir)
  return program.conclude(run_dir, signum)
