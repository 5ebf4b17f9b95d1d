"""The actor as a program."""

import argparse
import secrets
from typing import Any, Callable, Mapping

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.cli.roles import learner_connection
from impala_tf.roles import beginning
from impala_tf.runs import gin_config
from impala_tf.runtime import child as child_lib
from impala_tf.runtime import host as host_lib
from impala_tf.runtime import waiting as waiting_lib
from impala_tf.storage import files


class _Host(host_lib.ActorHost):
  """The process that the actor's loop runs in."""

  def __init__(self, args: argparse.Namespace,
               learner: learner_connection.LearnerConnection,
               say: Callable[[str], None], config: config_lib.Config,
               profile: Any = None):
    self._first = 'sent its first unrolls'
    if algorithms.architecture(config) == algorithms.SHARED_PARAMETERS:
      self._first = 'learned from its first segment'
    self._replay_address = args.replay_address
    self._wait_secs = args.wait_secs
    self._learner = learner
    self._say = say
    self._profile = profile
    self._has_sent = False
    self.poll = learner.poll

  def wait_for_learner(self) -> None:
    self._learner.config()
    if self._replay_address is not None:
      waiting_lib.for_port(self._replay_address, waiting_lib.Waiting(
          f'the replay at {self._replay_address}', self._wait_secs,
          self._say).poll)

  def on_unroll(self, hop_secs: Mapping[str, float]) -> None:
    if not self._has_sent:
      self._say(self._first)
    self._has_sent = True
    if self._profile is not None:
      self._profile.add_unroll(hop_secs)


def run(args: argparse.Namespace) -> None:
  """Plays until a signal comes, or the learner goes (ConnectionError)."""
  say = learner_connection.begin(args)
  if args.supervised:  # On the learner's machine.
    child_lib.yield_to_others()
  learner = learner_connection.LearnerConnection(args, say)
  # Where the config is known, environments are made while the learner starts.
  path = learner_connection.config_path(args)
  if path is not None and files.exists(path):
    config = gin_config.load(path, args.gin_binding)
  else:
    config = learner.config()
  # Here, since they import TensorFlow, which takes seconds.
  from impala_tf.runs import profiling
  architecture = beginning.import_architecture(config)
  seed = secrets.randbits(31) if args.seed is None else args.seed
  profile = None
  if args.profile:
    profile = profiling.HopTimesWriter(args.run_dir, f'actor_{seed}')
  architecture.run_actor(
      config, args.address, seed, args.task,
      _Host(args, learner, say, config, profile), args.replay_address,
      args.core, args.agent or 0)
