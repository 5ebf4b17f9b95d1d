"""The config of a run, with the checks that concern several sections."""

import dataclasses
import typing
from typing import Any, Dict, Optional, Type

from impala_tf.config import environments
from impala_tf.config import fields
from impala_tf.config import learning
from impala_tf.config import population as population_lib
from impala_tf.config import processes


@dataclasses.dataclass(frozen=True)
class Config:
  """The config of one run: all sections.

  Raises:
    ConfigError: two values do not go together.
  """
  experiment: processes.ExperimentConfig = processes.ExperimentConfig()
  environment: environments.EnvironmentConfig = environments.EnvironmentConfig()
  atari: environments.AtariConfig = environments.AtariConfig()
  dmlab: environments.DmlabConfig = environments.DmlabConfig()
  vizdoom: environments.VizdoomConfig = environments.VizdoomConfig()
  agent: learning.AgentConfig = learning.AgentConfig()
  impala: learning.ImpalaConfig = learning.ImpalaConfig()
  laser: learning.LaserConfig = learning.LaserConfig()
  optimizer: learning.OptimizerConfig = learning.OptimizerConfig()
  actor: processes.ActorConfig = processes.ActorConfig()
  learner: processes.LearnerConfig = processes.LearnerConfig()
  replay: learning.ReplayConfig = learning.ReplayConfig()
  population: population_lib.PopulationConfig = (
      population_lib.PopulationConfig())
  asynchronous: processes.AsyncConfig = processes.AsyncConfig()

  def __post_init__(self):
    self._check_replay()
    for is_set, name in (
        (self.actor.env_processes, 'ActorConfig.env_processes'),
        (self.learner.num_learners > 1, 'LearnerConfig.num_learners')):
      if is_set and self.experiment.in_process:
        raise fields.ConfigError(
            f'{name} needs processes, but ExperimentConfig.in_process allows '
            'only one; leave one of them out')
    self._check_learners()
    self._check_controlled_lag()
    self._check_synchronisation()
    self._check_population()

  def _check_replay(self):
    batch_size = self.learner.batch_size
    replay, fraction = self.replay, self.replay.replay_fraction
    off = abs(batch_size * fraction - self.num_replayed)
    if off > 1e-6 or (fraction < 1 and self.num_replayed == batch_size):
      raise fields.ConfigError(
          f'ReplayConfig.replay_fraction is {fraction}, which of a batch of '
          f'{batch_size} is no whole number of unrolls; use a multiple of '
          f'1/{batch_size}')
    if (fraction == 1) != (replay.pacing_unrolls is not None):
      raise fields.ConfigError(
          f'ReplayConfig.pacing_unrolls is {replay.pacing_unrolls}, but '
          f'ReplayConfig.replay_fraction is {fraction}; a number goes with a '
          'fraction of 1, and None with others')
    if replay.core_state == 'recomputed' and (
        replay.sampling != 'episodes' or not self.agent.use_lstm):
      raise fields.ConfigError(
          "ReplayConfig.core_state = 'recomputed' needs ReplayConfig.sampling "
          "= 'episodes' and AgentConfig.use_lstm = True")

  def _check_learners(self):
    for is_set, name in (
        (self.replay.survives_resume, 'survives_resume'),
        (self.replay.sampling == 'priorities', "sampling = 'priorities'")):
      if is_set and self.num_replayed and self.learner.num_learners > 1:
        raise fields.ConfigError(
            f'ReplayConfig.{name} is for a single learner; leave it out, or '
            'set LearnerConfig.num_learners = 1')

  def _check_controlled_lag(self):
    if self.actor.controlled_lag_updates is None:
      return
    if not self.experiment.in_process:
      raise fields.ConfigError(
          'ActorConfig.controlled_lag_updates needs '
          'ExperimentConfig.in_process = True: between processes the queue '
          'adds to the lag')
    if self.actor.fetch_interval_unrolls > 1:
      raise fields.ConfigError(
          'ActorConfig.fetch_interval_unrolls must be 1 if '
          'ActorConfig.controlled_lag_updates is given: parameters that are '
          'kept grow older than that')
    num_envs = self.actor.num_envs
    if num_envs is None or self.num_fresh % num_envs:
      raise fields.ConfigError(
          f'ActorConfig.controlled_lag_updates needs ActorConfig.num_envs to '
          f'divide the {self.num_fresh} new unrolls of a batch, but it is '
          f'{num_envs}')

  def _check_synchronisation(self):
    actor = self.actor
    if actor.synchronisation == 'none':
      return
    for is_set, remedy, reason in (
        (self.replay.replay_fraction, 'ReplayConfig.replay_fraction = 0',
         'each unroll is learned from once, by the policy that played it'),
        (self.learner.num_learners > 1, 'LearnerConfig.num_learners = 1',
         'one learner waits for all that play'),
        (self.learner.precision != 'float32',
         "LearnerConfig.precision = 'float32'",
         'the ratios of acting and learning must be 1'),
        (actor.fetch_interval_unrolls > 1,
         'ActorConfig.fetch_interval_unrolls = 1',
         'each unroll is of the newest parameters'),
        (actor.controlled_lag_updates is not None,
         'ActorConfig.controlled_lag_updates = None', 'the lag is 0'),
        (self.learner_plays and actor.num_actors not in (None, 1),
         'ActorConfig.num_actors = None', 'the learner plays by itself')):
      if is_set:
        raise fields.ConfigError(
            f'ActorConfig.synchronisation = {actor.synchronisation!r} needs '
            f"{remedy}: {reason}; set it so, or synchronisation to 'none'")

  def _check_population(self):
    if not self.population.member_names:
      return
    if self.learner.num_learners > 1:
      raise fields.ConfigError(
          'LearnerConfig.num_learners must be 1 for a member of a population, '
          'since one learner decides; leave it out')
    if 'max_gradient_norm' in self.population.adapted_names and (
        self.optimizer.max_gradient_norm is None):
      raise fields.ConfigError(
          'PopulationConfig.adapted names max_gradient_norm, but '
          'OptimizerConfig.max_gradient_norm is None: gradients that are not '
          'clipped have no threshold; leave one of them out')

  @property
  def learner_plays(self) -> bool:
    """Whether the learner's process plays, without actors."""
    return self.actor.synchronisation == 'step'

  @property
  def num_replayed(self) -> int:
    """Unrolls of a batch that come from the replay."""
    return round(self.learner.batch_size * self.replay.replay_fraction)

  @property
  def num_fresh(self) -> int:
    """Unrolls that come from the queue for each update."""
    return self.replay.pacing_unrolls or (
        self.learner.batch_size - self.num_replayed)

  @property
  def has_priorities(self) -> bool:
    """Whether the replay is sampled by priorities."""
    return bool(self.num_replayed) and self.replay.sampling == 'priorities'

  @property
  def chain_unrolls(self) -> Optional[int]:
    """Most unrolls in an item of the replay; None if an item is one unroll."""
    if self.num_replayed and self.replay.sampling == 'episodes':
      return self.replay.episode_unrolls
    return None


def sections() -> Dict[str, Type[Any]]:
  """Returns the class of each section by the name of its field in `Config`."""
  return typing.get_type_hints(Config)
