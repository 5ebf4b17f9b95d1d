"""Trains an agent on a Ray cluster; see `launch/cluster.sh`.

Without --ray_address it starts Ray on this machine. This program must stay: it
starts anew what is lost, gathers logs, and ends everything. Ctrl-C writes a
checkpoint, and the same command resumes.

Exit codes: 0 all frames are learned from, 2 bad input, 130 Ctrl-C, 143 asked to
terminate, 1 anything else.
"""

import argparse
import contextlib
import dataclasses
import logging
import os
import pathlib
from typing import Iterator, Optional, Sequence

from impala_tf import config as config_lib
from impala_tf import files
from impala_tf import sizing
from impala_tf.envs import factory
from impala_tf.suites import levels
from launch import gin_config
from launch import program
from launch import progress
from launch import ray_connection
from launch import run_directory


def _parse_args() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog='cluster.sh', description=__doc__)
  parser.add_argument('--config', required=True, metavar='FILE.gin',
                      help='what to train')
  parser.add_argument('--gin_binding', action='append', default=[],
                      metavar='"LearnerConfig.batch_size = 16"',
                      help='changes one value; may be repeated')
  parser.add_argument('--run_dir', help='where logs and checkpoints go: a '
                      'path on a file system that this machine shares with all '
                      'nodes the learner may be on, or a URL that TensorFlow '
                      'opens on them; an existing run is resumed '
                      '(default: a new one in runs/)')
  program.add_ray_address(parser)
  program.add_network(parser)
  parser.add_argument('--num_actors', type=int,
                      help='(default: ActorConfig.num_actors; if that is open, '
                      'as many as there is room for)')
  parser.add_argument('--learner_cpus', type=float, default=1.,
                      help='that Ray reserves for the learner (default: '
                      '%(default)g)')
  parser.add_argument('--learner_gpus', type=float,
                      help='likewise (default: 1 if any node has one)')
  parser.add_argument('--actor_cpus', type=float,
                      help='likewise for each actor (default: '
                      'ActorConfig.env_processes, or 1)')
  parser.add_argument('--port', type=int,
                      help="of the Reverb server on the learner's node "
                      '(default: a free one)')
  parser.add_argument('--wait_secs', type=float, default=600.,
                      help='for room for the learner, and of learner and '
                      'actors for each other (default: %(default)g)')
  return parser.parse_args()


def _check_flags(args: argparse.Namespace) -> None:
  for name in ('num_actors', 'learner_cpus', 'actor_cpus', 'wait_secs'):
    value = getattr(args, name)
    if value is not None and not value > 0:
      raise config_lib.UserError(f'--{name} must be above 0, but is {value:g}')
  if args.learner_gpus is not None and not args.learner_gpus >= 0:
    raise config_lib.UserError(
        f'--learner_gpus must be at least 0, but is {args.learner_gpus:g}')
  if args.port is not None and not 0 < args.port < 2**16:
    raise config_lib.UserError(
        f'--port must be 1 to {2**16 - 1}, but is {args.port}')


def _load(args: argparse.Namespace) -> config_lib.Config:
  config = gin_config.load(args.config, args.gin_binding)
  if config.experiment.in_process:
    raise config_lib.UserError(
        'ExperimentConfig.in_process leaves no roles to others; set it to '
        'False, or use ./launch/train.sh')
  if config.learner.num_learners > 1:
    raise config_lib.UserError(
        f'LearnerConfig.num_learners is {config.learner.num_learners}, but on '
        'Ray there is one; start several by ./launch/role.sh '
        '(docs/cluster.md)')
  factory.check_levels(
      config.environment.level, config.agent.instruction_length)
  return config


class _Plan:
  """What is to run on the cluster.

  Attributes:
    config: with a number for `ActorConfig.num_actors`.
    learner: what it needs.
    actor: what each needs.
  """

  def __init__(self, args: argparse.Namespace, config: config_lib.Config,
               nodes: Sequence[ray_connection.Resources]):
    """Raises UserError where there is no room for it."""
    gpus = args.learner_gpus
    if gpus is None:
      gpus = float(any(node.gpus >= 1 for node in nodes))
    self.learner = ray_connection.Resources(args.learner_cpus, gpus)
    self.actor = ray_connection.Resources(
        args.actor_cpus or config.actor.env_processes or 1., 0.)
    room = self._room_for_actors(nodes)
    number = (args.num_actors or config.actor.num_actors
              or _number_before(args.run_dir) or max(1, room))
    if number > room:
      raise config_lib.UserError(
          f'the cluster has room for {room} actors of {self.actor} each beside '
          f'the learner, not for {number}: it has '
          f'{ray_connection.describe(nodes)}; add nodes, or give smaller '
          '--actor_cpus or --num_actors')
    self.config = dataclasses.replace(config, actor=dataclasses.replace(
        config.actor, num_actors=number))
    sizing.fit(self.config)  # Refuses more levels than environments.

  def _room_for_actors(self, nodes: Sequence[ray_connection.Resources]) -> int:
    """Beside the learner; raises UserError where there is none for that."""
    rooms = [
        ray_connection.num_places(
            [*nodes[:i], node.minus(self.learner), *nodes[i + 1:]], self.actor)
        for i, node in enumerate(nodes) if node.num_places(self.learner)]
    if not rooms:
      raise config_lib.UserError(
          f'no node has {self.learner} for the learner: the cluster has '
          f'{ray_connection.describe(nodes)}; add such a node, or give smaller '
          '--learner_cpus or --learner_gpus (0 learns on CPUs)')
    return max(rooms)

  def show(self, nodes: Sequence[ray_connection.Resources], run_dir: str,
           resuming: bool) -> None:
    """Says what is trained where."""
    level = levels.short_name(self.config.environment.level)
    print(f'{"Resuming" if resuming else "Training"} {level} in {run_dir}\n'
          f'  on {ray_connection.describe(nodes)} of Ray\n'
          f'  a learner with {self.learner}\n'
          f'  {self.config.actor.num_actors} actors with {self.actor} each',
          flush=True)


def _number_before(run_dir: Optional[str]) -> Optional[int]:
  """How many actors a run has that is resumed; None where there is none."""
  path = gin_config.config_path(run_dir or '')
  if not files.exists(path):
    return None
  return gin_config.load(path).actor.num_actors


@contextlib.contextmanager
def _logging_to(log_dir: pathlib.Path) -> Iterator[None]:
  """Has a file get what is logged, too."""
  log_dir.mkdir(parents=True, exist_ok=True)
  handler = logging.FileHandler(log_dir / 'cluster.log')
  handler.setFormatter(logging.Formatter('%(asctime)s %(message)s'))
  logging.getLogger().addHandler(handler)
  try:
    yield
  finally:
    logging.getLogger().removeHandler(handler)
    handler.close()


def _train(args: argparse.Namespace, config: config_lib.Config,
           not_private: Optional[str]) -> int:
  run_dir = args.run_dir or run_directory.fresh_path(config.environment.level)
  run_directory.reach(run_dir)
  log_dir = pathlib.Path(run_directory.logs_path(run_dir))
  with ray_connection.connected(args.ray_address, args.learner_cpus) as nodes:
    from launch import cluster_run  # Imports Ray.
    plan = _Plan(args, config, nodes)
    with run_directory.claim(run_dir, plan.config) as resuming:
      plan.show(nodes, run_dir, resuming)
      program.show_network([('Reverb', args.port)], not_private)
      program.show_logs(run_dir)
      run = cluster_run.ClusterRun(
          plan.config,
          run_dir if files.is_url(run_dir) else os.path.abspath(run_dir),
          log_dir, args.port, plan.learner, plan.actor, args.wait_secs)
      newest = progress.NewestRow(run_dir)
      with progress.ProgressLine(
          plan.config.experiment.total_frames) as line, _logging_to(log_dir):
        signum = run.run(lambda: newest.show(line))
  return program.conclude(run_dir, signum)


def _run(args: argparse.Namespace) -> int:
  not_private = program.not_private(
      'launch.cluster', args.network, args.ray_address is not None,
      args.run_dir)
  _check_flags(args)
  return _train(args, _load(args), not_private)


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _run(_parse_args()))


if __name__ == '__main__':
  program.end(main())
