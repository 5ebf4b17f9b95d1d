"""Plan of a run on a cluster: what it needs, and whether there is room."""

import argparse
import dataclasses
from typing import NamedTuple, Optional, Sequence

from impala_tf import config as config_lib
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.runs import gin_config
from impala_tf.runtime import command_names
from impala_tf.runtime import plurals
from impala_tf.runtime import sizing
from impala_tf.storage import files
from impala_tf.suites import levels

_Nodes = Sequence[ray_connection.Resources]


class Needs(NamedTuple):
  """Resources that Ray reserves for each program of a run.

  Attributes:
    learner: resources of each learner.
    actor: resources of each actor.
    evaluator: resources of the evaluator; None where there is none.
  """
  learner: ray_connection.Resources
  actor: ray_connection.Resources
  evaluator: Optional[ray_connection.Resources]


def evaluator_needs(args: argparse.Namespace
                    ) -> Optional[ray_connection.Resources]:
  """Returns what an evaluator needs; None where the flags ask for none."""
  if not args.evaluate:
    return None
  return ray_connection.Resources(args.actor_cpus or 1., 0.)


def cpus_besides_actors(args: argparse.Namespace,
                        config: config_lib.Config) -> float:
  """Returns how many CPUs the learners and the evaluator need."""
  evaluator = evaluator_needs(args)
  return (config.learner.num_learners * args.learner_cpus +
          (evaluator.cpus if evaluator else 0.))


class Plan:
  """Programs that are to run on the cluster.

  Attributes:
    config: config of the run, with a number for `ActorConfig.num_actors`.
    needs: resources of each program.
  """

  def __init__(self, args: argparse.Namespace, config: config_lib.Config,
               nodes: _Nodes):
    """Finds room for the run.

    Args:
      args: flags of `impala_tf.cli.cluster`.
      config: config of the run.
      nodes: resources of each node.

    Raises:
      UserError: where there is no room for it.
    """
    if config.learner_plays:
      raise config_lib.UserError(
          "with ActorConfig.synchronisation = 'step' the learner plays by "
          f'itself, on one machine; use {command_names.command("train")}')
    gpus = args.learner_gpus
    if gpus is None:
      gpus = float(any(node.gpus >= 1 for node in nodes))
    self.needs = Needs(
        ray_connection.Resources(args.learner_cpus, gpus),
        ray_connection.Resources(
            args.actor_cpus or config.actor.env_processes or 1., 0.),
        evaluator_needs(args))
    self._num_learners = config.learner.num_learners
    room = ray_connection.num_places(self._left(nodes), self.needs.actor)
    others = self._learners()
    if args.evaluate:
      others += ' and the evaluator'
    number = (args.num_actors or config.actor.num_actors
              or _number_before(args.run_dir)
              or _number_within(config, room))
    if number > room:
      raise config_lib.UserError(
          f'the cluster has room for {plurals.counted(room, "actor")} of '
          f'{self.needs.actor} each beside {others}, not for {number}: it has '
          f'{ray_connection.describe(nodes)}; add nodes, or give smaller '
          '--actor_cpus or --num_actors')
    self.config = dataclasses.replace(config, actor=dataclasses.replace(
        config.actor, num_actors=number))
    # Refuses more levels than environments, and more learners than actors.
    sizing.fit(self.config)

  def _learners(self) -> str:
    number = self._num_learners
    return f'the {number} learners' if number > 1 else 'the learner'

  def _left(self, nodes: _Nodes) -> _Nodes:
    """Returns what nodes have left beside learners and evaluator.

    Raises:
      UserError: where learners or evaluator have no room.
    """
    left = nodes
    for i in range(self._num_learners):
      left = self._with(left, self.needs.learner)
      if not left:
        self._refuse_learner(i, nodes)
    if self.needs.evaluator is not None:
      left = self._with(left, self.needs.evaluator)
      if not left:
        raise config_lib.UserError(
            f'no node has {self.needs.evaluator} for the evaluator beside '
            f'{self._learners()}: the cluster has '
            f'{ray_connection.describe(nodes)}; add a node, or leave out '
            '--evaluate')
    return left

  def _with(self, nodes: _Nodes, needs: ray_connection.Resources) -> _Nodes:
    """Returns what nodes have left beside a program; empty without room."""
    left = [[*nodes[:i], node.minus(needs), *nodes[i + 1:]]
            for i, node in enumerate(nodes) if node.num_places(needs)]
    return max(left, default=[], key=lambda option: (
        ray_connection.num_places(option, self.needs.actor)))

  def _refuse_learner(self, number: int, nodes: _Nodes) -> None:
    """Raises UserError: there is room for only `number` learners."""
    needs = self.needs.learner
    has = f'the cluster has {ray_connection.describe(nodes)}'
    smaller = ('give smaller --learner_cpus or --learner_gpus (0 learns on '
               'CPUs)')
    if self._num_learners == 1:
      raise config_lib.UserError(
          f'no node has {needs} for the learner: {has}; add such a node, or '
          f'{smaller}')
    raise config_lib.UserError(
        f'there is room for {plurals.counted(number, "learner")} with {needs} '
        f'each, not for {self._num_learners}: {has}; add nodes, or {smaller}')

  def show(self, nodes: _Nodes, run_dir: str, resuming: bool) -> None:
    """Prints what is trained where."""
    level = levels.short_name(self.config.environment.level)
    needs, number = self.needs, self._num_learners
    print(f'{"Resuming" if resuming else "Training"} {level} in {run_dir}\n'
          f'  on {ray_connection.describe(nodes)} of Ray')
    print(f'  {number} learners with {needs.learner} each' if number > 1 else
          f'  a learner with {needs.learner}')
    actors = plurals.counted(self.config.actor.num_actors, 'actor')
    print(f'  {actors} with {needs.actor} each')
    if needs.evaluator is not None:
      print(f'  an evaluator with {needs.evaluator}')


def _number_within(config: config_lib.Config, room: int) -> int:
  """Returns how many actors make use of room for so many."""
  if config.actor.synchronisation != 'none':
    return sizing.num_synchronous_actors(config, room)
  num_learners = config.learner.num_learners
  return max(1, room // num_learners) * num_learners


def _number_before(run_dir: Optional[str]) -> Optional[int]:
  """Returns the number of actors of the run to be resumed; None without one."""
  path = gin_config.config_path(run_dir or '')
  if not files.exists(path):
    return None
  return gin_config.load(path).actor.num_actors
