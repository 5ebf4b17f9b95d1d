"""The parts of a learner's process, made from the config."""

import functools
from typing import Callable, NamedTuple

import reverb

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.comms import unroll_filter
from impala_tf.core import batches as batches_lib
from impala_tf.core import experiment
from impala_tf.core import transport
from impala_tf.core import weights
from impala_tf.envs import environment as environment_lib
from impala_tf.pbt import member as member_lib
from impala_tf.replay import shared_replay
from impala_tf.roles import learner_state
from impala_tf.runs import training_log
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import learner_group
from impala_tf.runtime import precision
from impala_tf.runtime import sizing
from impala_tf.storage import checkpoint as checkpoint_lib


class LearnerParts(NamedTuple):
  """Parts that learning needs, beside actors or in turns with an actor."""
  config: config_lib.Config  # With sizes from `sizing.fit`.
  log_dir: str  # Directory for the rows of this learner.
  environment: environment_lib.BatchedEnvironment  # Closed, for its specs.
  spec: types.Unroll  # Shapes and dtypes of one unroll.
  learners: learner_group.Learners  # All learners of the run, mostly one.
  state: learner_state.State  # All that checkpoints hold.
  save: training_log.SaveFn
  server: reverb.Server  # Serves queue, replay, parameters and config.
  publisher: weights.Publisher
  refusals: unroll_filter.Refusals
  member: member_lib.Member | None  # Of a population, if any.
  # Connection to a shared replay; None if the replay, if any, is in the
  # learner's own server.
  link: shared_replay.Link | None
  # Gives batches; None if the learner plays them by itself.
  reader: batches_lib.BatchReader | None = None

  @property
  def address(self) -> str:
    """'host:port' of the server, on this machine."""
    return f'localhost:{self.server.port}'

  @property
  def prepare(self) -> Callable[[types.Unroll], types.Unroll]:
    """Function that places a batch's observations on the learner's device."""
    devices = self.learners.strategy.extended.worker_devices
    # Several devices share the batch out from the host.
    return functools.partial(
        batches_lib.place_observations,
        device='/cpu:0' if len(devices) > 1 else devices[0])


def make(announced: config_lib.Config, endpoint: control_lib.Endpoint,
         learners: learner_group.Learners) -> LearnerParts:
  """Makes the parts, restores the newest checkpoint, publishes its parameters.

  Raises OSError if the port is taken, ConnectionError if a replay elsewhere
  does not answer. Raises ConfigError if the config cannot be trained,
  UserError if all checkpoints are damaged.
  """
  link = None
  config = sizing.fit(announced)
  run_dir, sharing = endpoint.run_dir, endpoint.sharing
  if sharing.replay_address is not None:
    link = shared_replay.Link(
        sharing.replay_address, sharing.agent,
        config_lib.data_fingerprint(config), learners.is_chief)
  environment = experiment.make_probe_environment(config)
  learners.require_same(
      announced, sizing.fitted(config.learner.num_threads),
      precision.of_learner(
          config, learners.strategy.extended.worker_devices[0]))
  state = learner_state.make(config, environment, learners.strategy)
  log_dir = learners.own_directory(run_dir)
  checkpointer = learner_state.restore(
      config, run_dir, log_dir, environment, state, learners.is_chief)
  learner = state.learner
  replay_dir = None
  if config.num_replayed and config.replay.survives_resume and link is None:
    replay_dir = checkpoint_lib.replay_directory(run_dir)
  spec = experiment.make_unroll_spec(config, environment, learner.agent)
  server, memory = transport.serve(
      config, announced, learner.agent.published_variables,
      transport.make_tables(config, spec, has_replay=link is None),
      endpoint.port, replay_dir)
  address = f'localhost:{server.port}'
  frames_per_update = (
      config.learner.num_learners * config.num_fresh *
      config.learner.unroll_length * environment.frames_per_step)
  publisher = transport.make_publisher(
      config, address, learner, frames_per_update, memory)
  member = None
  if learner_state.POPULATION in state.others:  # It has a single learner.
    member = member_lib.Member(
        config, run_dir, learner, state.others[learner_state.POPULATION],
        checkpointer)
  version = int(learner.num_updates.numpy())
  learners.require_same_parameters(publisher.snapshot(), version)
  publisher.publish(version)
  parts = LearnerParts(
      config, log_dir, environment, spec, learners, state,
      functools.partial(
          learner_state.save, checkpointer,
          reverb.Client(address) if replay_dir else None, learners.is_chief),
      server, publisher, unroll_filter.Refusals(), member, link)
  if not config.learner_plays:
    parts = parts._replace(
        reader=_make_reader(parts, sharing, frames_per_update))
  return parts


def _make_reader(parts: LearnerParts, sharing: control_lib.Sharing,
                 frames_per_update: int) -> batches_lib.BatchReader:
  config, link = parts.config, parts.link
  recompute = None
  if config.chain_unrolls is not None and config.replay.core_state != 'stored':
    # With another agent: the reader's thread runs it while the learner changes
    # its parameters.
    copy = experiment.make_agent(config, parts.environment)
    recompute = agent_lib.memory_recomputer(
        copy, weights.Fetcher(parts.address, copy.published_variables))
  first_version = (None if config.actor.synchronisation == 'none' else
                   int(parts.state.learner.num_updates.numpy()))
  reader = functools.partial(
      batches_lib.BatchReader,
      transport.make_batches(config, parts.spec, parts.address, parts.refusals,
                             sharing, recompute, first_version),
      parts.prepare, parts.refusals)
  if link is None or not parts.learners.is_chief:  # All wait for its batch.
    return reader()
  return reader(
      must_pause=functools.partial(
          shared_replay.must_pause, link,
          lambda: int(parts.state.learner.num_frames.numpy()),
          frames_per_update, config.experiment.total_frames),
      problem=lambda: link.problem)
