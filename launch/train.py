"""Trains an agent on this machine; see `launch/train.sh`.

Exit codes: 0 all frames are learned from, 2 bad input, 130 Ctrl-C, 143 asked to
terminate, 1 anything else.
"""

import argparse
import os
import signal
import sys
import threading

from impala_tf import config as config_lib
from impala_tf import metrics
from impala_tf import ports
from impala_tf import sizing
from impala_tf import supervisor
from impala_tf.envs import factory
from impala_tf.suites import levels
from launch import gin_config
from launch import program
from launch import progress
from launch import run_directory
from launch import time_budget

_DEFAULT_CONFIG = 'configs/atari/pong.gin'


def _parse_args() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog='train.sh', description=__doc__)
  parser.add_argument('config', nargs='?', default=_DEFAULT_CONFIG,
                      help='a .gin file (default: %(default)s)')
  parser.add_argument('--run_dir', help='where logs and checkpoints go; an '
                      'existing run is resumed (default: a new one in runs/)')
  parser.add_argument('--gin_binding', action='append', default=[],
                      metavar='"LearnerConfig.batch_size = 16"',
                      help='changes one value; may be repeated')
  parser.add_argument('--port', type=int,
                      help='of the Reverb server (default: a free one)')
  parser.add_argument('--profile', action='store_true',
                      help="record a few updates for TensorBoard's profiler, "
                      'and print at the end where the time went')
  return parser.parse_args()


def _train_in_processes(config: config_lib.Config, run_dir: str, port: int,
                        profile: bool, line: progress.ProgressLine):
  """Returns the signal that ended the run, or None."""
  role = [sys.executable, '-m', 'launch.role']
  where = [f'--run_dir={run_dir}', f'--port={port}']
  if profile:
    where.append('--profile')
  rows = metrics.RowReader(run_dir)
  rows.new_rows()  # Those of the past, where a run is resumed.

  def show_newest():
    for row in rows.new_rows()[-1:]:
      line.show(row)

  return supervisor.Supervisor(
      learner_command=role + ['learner'] + where,
      actor_command=lambda task, attempt: role + ['actor'] + where + [
          f'--task={task}', f'--seed={task + attempt * 10_000}'],
      num_actors=sizing.fit(config).actor.num_actors,
      log_dir=os.path.join(run_dir, 'logs'),
      max_restarts=config.actor.max_restarts,
      restart_window_secs=config.actor.restart_window_secs).run(show_newest)


def _train_in_this_process(config: config_lib.Config, run_dir: str,
                           line: progress.ProgressLine):
  """Returns the signal that ended the run, or None."""
  from impala_tf import experiment  # Takes seconds, so after all checks.
  received = []
  stopping = threading.Event()

  def on_signal(signum, unused_frame):
    received.append(signum)
    stopping.set()

  for signum in (signal.SIGINT, signal.SIGTERM):
    signal.signal(signum, on_signal)
  experiment.run_in_process(config, run_dir, stopping.is_set, line.show)
  return received[0] if received else None


def _run(args: argparse.Namespace) -> int:
  config = gin_config.load(args.config, args.gin_binding)
  if args.profile and config.experiment.in_process:
    raise config_lib.UserError(
        '--profile needs processes of their own for learner and actors; leave '
        'it out, or set ExperimentConfig.in_process = False')
  factory.check_levels(
      config.environment.level, config.agent.instruction_length)
  sizing.fit(config)  # Refuses more levels than environments.
  try:
    port = ports.choose(args.port)
  except OSError as error:
    raise config_lib.UserError(f'--port: {error}') from error
  run_dir = args.run_dir or run_directory.fresh_path(config.environment.level)
  with run_directory.claim(run_dir, config) as resuming:
    print(f'{"Resuming" if resuming else "Training"} '
          f'{levels.short_name(config.environment.level)} in {run_dir}',
          flush=True)
    for choice in sizing.explain(config):
      print(f'  {choice}', flush=True)
    with progress.ProgressLine(config.experiment.total_frames) as line:
      if config.experiment.in_process:
        signum = _train_in_this_process(config, run_dir, line)
      else:
        signum = _train_in_processes(config, run_dir, port, args.profile,
                                     line)
  if args.profile:
    time_budget.show(config, run_dir)
  if signum is None:
    print(f'Done; evaluate with ./launch/evaluate.sh {run_dir}')
    return 0
  print(f'Stopped, checkpoint written; the same command with '
        f'--run_dir={run_dir} resumes')
  return 128 + signum


def main() -> int:
  """Returns the exit code."""
  try:
    return program.run(lambda: _run(_parse_args()))
  except supervisor.RunFailed as error:
    print(f'error: {error}', file=sys.stderr)
    return 1


if __name__ == '__main__':
  sys.exit(main())
