"""Plan of a run on a cluster: needed resources, and whether nodes have them."""

import argparse
from typing import NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.runs import gin_config
from impala_tf.runtime import sizing
from impala_tf.runtime import wording
from impala_tf.storage import files

_Nodes = Sequence[ray_connection.Resources]


class Needs(NamedTuple):
  """Resources that Ray reserves for each program of a run."""
  learner: ray_connection.Resources
  actor: ray_connection.Resources
  evaluator: ray_connection.Resources | None  # None if there is none.


class Plan:
  """The `config` of a run that fits on the nodes, and its programs' `needs`."""

  def __init__(self, args: argparse.Namespace, config: config_lib.Config,
               nodes: _Nodes):
    """Checks that `nodes` have room; `args`: flags of `impala_tf.cli.cluster`.

    The config gets a number of actors. Raises UserError if there is no room.
    """
    if config.learner_plays:
      raise config_lib.UserError(
          "with ActorConfig.synchronisation = 'step' the learner plays by "
          f'itself, on one machine; use {wording.command("train")}')
    gpus = (float(any(node.gpus >= 1 for node in nodes))
            if args.learner_gpus is None else args.learner_gpus)
    self.needs = Needs(
        ray_connection.Resources(args.learner_cpus, gpus),
        ray_connection.Resources(
            args.actor_cpus or config.actor.env_processes or 1., 0.),
        ray_connection.Resources(args.actor_cpus or 1., 0.)
        if args.evaluate else None)
    number = config.learner.num_learners
    others = {'the learner' if number == 1 else f'learner {i + 1} of {number}':
              self.needs.learner for i in range(number)}
    if self.needs.evaluator is not None:
      others['the evaluator'] = self.needs.evaluator
    left = nodes
    for name, needs in others.items():
      left = self._beside(left, name, needs, nodes)
    room = ray_connection.num_places(left, self.needs.actor)
    number = args.num_actors or config.actor.num_actors or 0
    begun = gin_config.config_path(args.run_dir or '')
    if not number and args.run_dir and files.exists(begun):
      number = gin_config.load(begun).actor.num_actors or 0
    number = number or sizing.num_actors(config, room)
    if number > room:
      raise config_lib.UserError(
          f'the cluster has room for {wording.counted(room, "actor")} of '
          f'{self.needs.actor} each beside {", ".join(others)}, not for '
          f'{number}: it has {ray_connection.describe(nodes)}; add nodes, or '
          'give smaller --actor_cpus or --num_actors')
    self.config = config.replaced('actor', num_actors=number)
    # Refuses more levels than environments, and more learners than actors.
    sizing.fit(self.config)

  def _beside(self, left: _Nodes, name: str, needs: ray_connection.Resources,
              nodes: _Nodes) -> _Nodes:
    """Returns the resources that a program leaves; UserError without room."""
    options = [[*left[:i], node.minus(needs), *left[i + 1:]]
               for i, node in enumerate(left) if node.num_places(needs)]
    if not options:
      raise config_lib.UserError(
          f'no node has {needs} for {name}: the cluster has '
          f'{ray_connection.describe(nodes)}; add such a node, or give smaller '
          '--learner_cpus, --learner_gpus (0 learns on CPUs) or --actor_cpus')
    return max(options, key=lambda option: (
        ray_connection.num_places(option, self.needs.actor)))

  def show(self, nodes: _Nodes) -> None:
    """Prints the nodes, and each role's number of programs and needs."""
    print(f'  on {ray_connection.describe(nodes)} of Ray')
    for noun, number, needs in (
        ('learner', self.config.learner.num_learners, self.needs.learner),
        ('actor', sizing.fitted(self.config.actor.num_actors),
         self.needs.actor),
        ('evaluator', 1, self.needs.evaluator)):
      if needs is not None:
        print(f'  {wording.counted(number, noun)} with {needs} each')
