"""Batched A2C, which learns only from unrolls of its newest parameters.

Figure 2 and section 5.1 of Espeholt et al. 2018, three forms of one rule: an
update takes one unroll of each environment, all by the newest parameters, and
all players wait for it. The policy lag is 0, all ratios are 1, and V-trace's
targets are n-step targets (equation 2), so that the algorithm is 'impala'.

- Sync step: `play_batches`, with which the learner plays by itself.
- Sync trajectory: IMPALA's actors, whose `NewerFetcher` waits for each update,
  and a queue that is read by version (`unroll_filter.of_one_version`).
- Dynamic batch: the same with `SynchronousDynamicActor`.
"""

import collections
import itertools
import time
from typing import Callable, Generator, NamedTuple

from absl import logging
import dm_env
import numpy as np
import tensorflow as tf
import tree

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.comms import packing
from impala_tf.comms import sampling
from impala_tf.core import actor as actor_lib
from impala_tf.core import experiment
from impala_tf.core import learner as learner_lib
from impala_tf.core import weights
from impala_tf.envs import env_processes
from impala_tf.envs import environment as environment_lib
from impala_tf.runtime import control as control_lib

_POLL_SECS = 0.002  # An update takes some milliseconds at least.


class NewerFetcher:
  """A fetcher that never returns the same parameters of a learner twice."""

  def __init__(self, fetcher: weights.Fetcher):
    self._fetcher = fetcher
    self._last: tuple[int | None, str | None] = (None, None)

  def fetch(self) -> int:
    """Waits for newer parameters; ConnectionError if no learner answers."""
    while True:
      version = self._fetcher.fetch()
      # A learner that goes on from its last checkpoint has lost the unrolls of
      # that version, and waits for them.
      newest = (version, self._fetcher.learner)
      if version is not None and newest != self._last:
        self._last = newest
        return version
      time.sleep(_POLL_SECS)


class _Stopped(Exception):
  """Error that ends an unroll early because the learner must stop."""


class SteppedTogether:
  """Environments whose `step` returns once all have stepped, as in figure 2a.

  `check` is called before each step, and about once a second within; it may
  raise. For the attributes see `environment.BatchedEnvironment`.
  """

  def __init__(self, environment: experiment.AnyEnvironment,
               check: Callable[[], None]):
    self._environment = environment
    self._check = check
    self.num_envs = environment.num_envs
    self.frame_stack = environment.frame_stack
    self.reward_scale = environment.reward_scale
    self.level_index = environment.level_index
    self.side_channels = environment_lib.NO_SIDE_CHANNELS

  def reset(self) -> dm_env.TimeStep:
    return self._receive(None)

  def step(self, actions: np.ndarray) -> dm_env.TimeStep:
    self._check()
    return self._receive(actions)

  def _receive(self, actions: np.ndarray | None) -> dm_env.TimeStep:
    """Steps, or resets if `actions` is None; sorts rows by environment."""
    environment = self._environment
    if not isinstance(environment, env_processes.Workers):
      timestep = (environment.reset() if actions is None
                  else environment.step(actions))
      self.side_channels = environment.side_channels
      return timestep
    if actions is not None:
      environment.send(np.arange(self.num_envs, dtype=np.int32), actions)
    numbers, timestep = environment.recv(self.num_envs, self._check)
    order = np.argsort(numbers)
    timestep, self.side_channels = tree.map_structure(
        lambda array: array[order], (timestep, environment.side_channels))
    return timestep

  def close(self) -> None:
    self._environment.close()


class _BatchWriter:
  def __init__(self) -> None:
    self._unrolls: list[types.Unroll] = []

  def write(self, unroll: packing.PackedUnroll) -> None:
    self._unrolls.append(unroll.unroll)

  def flush(self, max_pending: int = 0) -> None:
    del max_pending  # Nothing is on its way.

  def take(self) -> types.Unroll:
    """Removes the written unrolls; returns them copied, leading [T+1, B]."""
    batch = tf.nest.map_structure(
        lambda *arrays: tf.constant(np.stack(arrays)), *self._unrolls)
    self._unrolls = []
    return sampling.time_major(batch)


class _Newest(NamedTuple):
  """A fetcher for the learner's own agent: it only returns the version."""
  num_updates: tf.Variable

  def fetch(self) -> int:
    return int(self.num_updates.numpy())


def play_batches(config: config_lib.Config, learner: learner_lib.Learner,
                 spec: types.Unroll, control: control_lib.LoopControl,
                 prepare: Callable[[types.Unroll], types.Unroll]
                 ) -> Generator[types.Unroll, None, None]:
  """Plays and yields batches, mapped by `prepare`, until `control` stops it.

  It is sync step: all environments are stepped together, and one call of the
  learner's own agent serves them all. If the process of an environment dies,
  all begin anew, and unfinished unrolls are lost.

  Raises UserError if environments cannot be made or played, WorkerError if
  their processes die too often; see `ActorConfig.max_restarts`.
  """
  writer, actor = _BatchWriter(), None
  seeds = itertools.count(int(learner.num_updates.numpy()))  # New on resume.
  deaths: collections.deque[float] = collections.deque(
      maxlen=config.actor.max_restarts + 1)

  def check():
    if control.should_stop():
      raise _Stopped

  try:
    while True:
      control.before_batch()
      while True:
        try:
          check()
          actor = actor or _start(
              config, learner, spec, writer, next(seeds), check)
          actor.run_unroll()
          break
        except env_processes.WorkerError as error:
          if actor is not None:
            actor.close()
            actor = None
          deaths.append(now := time.monotonic())
          if (len(deaths) == deaths.maxlen and
              now - deaths[0] < config.actor.restart_window_secs):
            raise
          logging.warning('All environments begin anew: %s', error)
      yield prepare(writer.take())
  except _Stopped:
    return
  finally:
    if actor is not None:
      actor.close()


def _start(config: config_lib.Config, learner: learner_lib.Learner,
           spec: types.Unroll, writer: _BatchWriter, seed: int,
           check: Callable[[], None]) -> actor_lib.Actor:
  environment_seed, policy_seed = experiment.make_seeds(
      config.experiment.seed, seed)
  environment = SteppedTogether(
      experiment.make_actor_environment(config, environment_seed, task=0),
      check)
  try:
    return actor_lib.Actor(
        learner.agent, environment, writer, _Newest(learner.num_updates), spec,
        policy_seed, acts_anew=True)
  except BaseException:
    environment.close()
    raise
