"""Trains an agent on a Ray cluster, or resumes a run.

Without --ray_address it starts Ray on this machine. This program must keep
running: it restarts what is lost, gathers logs, and ends everything. Ctrl-C
writes a checkpoint, and the same command resumes.
"""

import argparse
import contextlib
import logging
import pathlib

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.cli.roles import flags as role_flags
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.ray_cluster import plan as cluster_plan
from impala_tf.roles import beginning
from impala_tf.runs import progress
from impala_tf.runs import run_directory
from impala_tf.runs import tracking
from impala_tf.runtime import user_modules
from impala_tf.runtime import waiting
from impala_tf.storage import files


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(description=__doc__)
  role_flags.add_training(parser)
  program.add_ray_address(parser)
  parser.add_argument('--num_actors', type=int,
                      help='(default: ActorConfig.num_actors; if that is open, '
                      'as many as there is room for)')
  parser.add_argument('--learner_cpus', type=float, default=1.,
                      help='CPUs that Ray reserves for each learner (default: '
                      '%(default)g)')
  parser.add_argument('--learner_gpus', type=float,
                      help='GPUs that Ray reserves for each learner (default: '
                      '1 if any node has one)')
  parser.add_argument('--actor_cpus', type=float,
                      help='CPUs that Ray reserves for each actor (default: '
                      'ActorConfig.env_processes, or 1), and for the evaluator '
                      '(default: 1)')
  parser.add_argument('--wait_secs', type=float, default=waiting.LIMIT_SECS,
                      help='longest wait for room, and of roles for peers '
                      '(default: %(default)g)')
  args = parser.parse_args()
  for name in ('num_actors', 'learner_cpus', 'actor_cpus', 'wait_secs'):
    config_lib.check_range(f'--{name}', getattr(args, name), above=0)
  config_lib.check_range('--learner_gpus', args.learner_gpus, at_least=0)
  config_lib.check_range('--port', args.port, at_least=1, at_most=2**16 - 1)
  return args


def _train(args: argparse.Namespace, config: config_lib.Config,
           why_public: str | None) -> int:
  run_dir = args.run_dir or run_directory.fresh_path(config.environment.level)
  run_directory.reach(run_dir)
  log_dir = pathlib.Path(run_directory.logs_path(run_dir))
  number = config.learner.num_learners
  open_ports = ([('Reverb', args.port + i) for i in range(number)]
                if args.port else [('Reverb', None)])
  if number > 1:
    open_ports.append(('TensorFlow', None))
  evaluator_cpus = (args.actor_cpus or 1.) if args.evaluate else 0.
  with ray_connection.connected(
      args.ray_address, number * args.learner_cpus + evaluator_cpus) as nodes:
    from impala_tf.ray_cluster import run as cluster_run  # Imports Ray.
    plan = cluster_plan.Plan(args, config, nodes)
    with run_directory.claim(
        run_dir, plan.config, args.allow_changes) as resuming:
      beginning.show_title(plan.config, run_dir, resuming)
      plan.show(nodes)
      beginning.warm_start(run_dir, args.init_from, resuming)
      beginning.show_network(open_ports, why_public)
      beginning.show_logs(run_dir)
      run = cluster_run.make_supervisor(
          plan.config, files.absolute(run_dir), log_dir, args.port, plan.needs,
          args.wait_secs, role_flags.sharing(args).flags())
      newest = progress.NewestRow(run_dir)
      log = logging.FileHandler(log_dir / 'cluster.log')
      log.setFormatter(logging.Formatter('%(asctime)s %(message)s'))
      with tracking.tracking(args.track, run_dir), progress.ProgressLine(
          plan.config) as line, contextlib.closing(log):
        logging.getLogger().addHandler(log)  # Which the line takes away.
        signum = run.run(lambda: newest.show(line))
  return program.conclude(run_dir, signum)


@program.returning_exit_code
def main() -> int:
  """Trains an agent on a Ray cluster; returns the exit code."""
  args = _parse_args()
  beginning.check_reverb()
  tracking.start(args.track)
  why_public = program.why_public('cluster', args, args.ray_address is not None)
  user_modules.load(args.modules)
  return _train(args, role_flags.load_config(args), why_public)
