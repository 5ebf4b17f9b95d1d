"""The config of a run: checks across its sections, and conversion to JSON."""

import dataclasses
import json
import typing
from typing import Any, Iterator

from impala_tf.config.actor import ActorConfig
from impala_tf.config.agent import AgentConfig
from impala_tf.config.asynchronous import AsyncConfig
from impala_tf.config.atari import AtariConfig
from impala_tf.config.dmlab import DmlabConfig
from impala_tf.config.environment import EnvironmentConfig
from impala_tf.config.experiment import ExperimentConfig
from impala_tf.config.fields import ConfigError
from impala_tf.config.impala import ImpalaConfig
from impala_tf.config.laser import LaserConfig
from impala_tf.config.learner import LearnerConfig
from impala_tf.config.optimizer import OptimizerConfig
from impala_tf.config.population import PopulationConfig
from impala_tf.config.replay import ReplayConfig
from impala_tf.config.vizdoom import VizdoomConfig

# Whether it is broken, and the message in that case.
_Rule = tuple[Any, str]


@dataclasses.dataclass(frozen=True)
class Config:
  """The config of one run: all sections.

  Raises:
    ConfigError: two values do not go together.
  """
  experiment: ExperimentConfig = ExperimentConfig()
  environment: EnvironmentConfig = EnvironmentConfig()
  atari: AtariConfig = AtariConfig()
  dmlab: DmlabConfig = DmlabConfig()
  vizdoom: VizdoomConfig = VizdoomConfig()
  agent: AgentConfig = AgentConfig()
  impala: ImpalaConfig = ImpalaConfig()
  laser: LaserConfig = LaserConfig()
  optimizer: OptimizerConfig = OptimizerConfig()
  actor: ActorConfig = ActorConfig()
  learner: LearnerConfig = LearnerConfig()
  replay: ReplayConfig = ReplayConfig()
  population: PopulationConfig = PopulationConfig()
  asynchronous: AsyncConfig = AsyncConfig()

  def __post_init__(self):
    for is_broken, message in (
        *self._rules_of_replay(), *self._rules_of_processes(),
        *self._rules_of_synchronisation()):
      if is_broken:
        raise ConfigError(message)

  def _rules_of_replay(self) -> Iterator[_Rule]:
    batch_size = self.learner.batch_size
    replay, fraction = self.replay, self.replay.replay_fraction
    off = abs(batch_size * fraction - self.num_replayed)
    yield off > 1e-6 or (fraction < 1 and self.num_replayed == batch_size), (
        f'ReplayConfig.replay_fraction is {fraction}, which of a batch of '
        f'{batch_size} is no whole number of unrolls; use a multiple of '
        f'1/{batch_size}')
    yield (fraction == 1) != (replay.pacing_unrolls is not None), (
        f'ReplayConfig.pacing_unrolls is {replay.pacing_unrolls}, but '
        f'ReplayConfig.replay_fraction is {fraction}; a number goes with a '
        'fraction of 1, and None with others')
    yield replay.core_state == 'recomputed' and (
        replay.sampling != 'episodes' or not self.agent.use_lstm), (
            "ReplayConfig.core_state = 'recomputed' needs AgentConfig.use_lstm "
            "= True and ReplayConfig.sampling = 'episodes'")

  def _rules_of_processes(self) -> Iterator[_Rule]:
    actor, replay = self.actor, self.replay
    in_process = self.experiment.in_process
    several_learners = self.learner.num_learners > 1
    is_member = bool(self.population.member_names)
    for is_set, name in (
        (actor.env_processes is not None, 'ActorConfig.env_processes'),
        (several_learners, 'LearnerConfig.num_learners')):
      yield is_set and in_process, (
          f'{name} needs processes, but ExperimentConfig.in_process allows '
          'only one; leave one of them out')
    for is_set, name in (
        (self.num_replayed > 0 and replay.survives_resume,
         'ReplayConfig.survives_resume'),
        (self.has_priorities, "ReplayConfig.sampling = 'priorities'"),
        (is_member, 'PopulationConfig.members')):
      yield is_set and several_learners, (
          f'{name} is for a single learner; leave it out, or set '
          'LearnerConfig.num_learners = 1')
    has_threshold = self.optimizer.max_gradient_norm is not None
    yield is_member and not has_threshold and (
        'max_gradient_norm' in self.population.adapted_names), (
            'PopulationConfig.adapted names max_gradient_norm, but '
            'OptimizerConfig.max_gradient_norm is None; set it to a number, or '
            'take the name out of PopulationConfig.adapted')
    has_lag = actor.controlled_lag_updates is not None
    yield has_lag and not in_process, (
        'ActorConfig.controlled_lag_updates needs ExperimentConfig.in_process '
        '= True: between processes the queue adds to the lag')
    yield has_lag and actor.fetch_interval_unrolls > 1, (
        'ActorConfig.fetch_interval_unrolls must be 1 if '
        'ActorConfig.controlled_lag_updates is given: parameters that are kept '
        'grow older than that')
    yield has_lag and (
        actor.num_envs is None or self.num_fresh % actor.num_envs), (
            'ActorConfig.controlled_lag_updates needs ActorConfig.num_envs to '
            f'divide the {self.num_fresh} new unrolls of a batch, but it is '
            f'{actor.num_envs}')

  def _rules_of_synchronisation(self) -> Iterator[_Rule]:
    actor = self.actor
    for is_broken, remedy, reason in (
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
      yield is_broken and actor.synchronisation != 'none', (
          f'ActorConfig.synchronisation = {actor.synchronisation!r} needs '
          f"{remedy}: {reason}; set it so, or synchronisation to 'none'")

  def replaced(self, section: str, **values: Any) -> 'Config':
    """Returns a config with other values of a section's options, by name."""
    return dataclasses.replace(self, **{
        section: dataclasses.replace(getattr(self, section), **values)})

  @property
  def learner_plays(self) -> bool:
    """Whether the learner's process plays, without actors."""
    return self.actor.synchronisation == 'step'

  @property
  def num_replayed(self) -> int:
    """Number of unrolls in a batch that come from the replay."""
    return round(self.learner.batch_size * self.replay.replay_fraction)

  @property
  def num_fresh(self) -> int:
    """Number of unrolls that each update reads from the queue."""
    return self.replay.pacing_unrolls or (
        self.learner.batch_size - self.num_replayed)

  @property
  def has_priorities(self) -> bool:
    """Whether the replay is sampled by priorities."""
    return bool(self.num_replayed) and self.replay.sampling == 'priorities'

  @property
  def chain_unrolls(self) -> int | None:
    """Maximum length of a replay item in unrolls; None for single unrolls."""
    if self.num_replayed and self.replay.sampling == 'episodes':
      return self.replay.episode_unrolls
    return None


def sections() -> dict[str, type[Any]]:
  """Returns the section class of each field of `Config`, by name."""
  return typing.get_type_hints(Config)


def to_json(config: Config) -> str:
  """Returns all values as JSON, the same text for equal configs."""
  return json.dumps(dataclasses.asdict(config), sort_keys=True)


def from_json(text: str) -> Config:
  """Reads a config that `to_json` has written, perhaps on another machine.

  Raises ConfigError unless the text is that of a config of this version.
  """
  try:
    values = json.loads(text)
    given = {f'{name}.{option}' for name, options in values.items()
             for option in options.keys()}
  except (AttributeError, ValueError) as error:
    raise ConfigError(f'this is no config ({error})') from error
  known = {f'{name}.{field.name}' for name, section in sections().items()
           for field in dataclasses.fields(section)}
  for name in sorted(known ^ given):
    raise ConfigError(
        f'the config is of another version of impala_tf: {name} is '
        f'{"missing" if name in known else "unknown"}; install the same '
        'version on all machines')
  return Config(**{
      name: section(**values[name]) for name, section in sections().items()})
