"""Every knob of the system: frozen dataclasses with units and range checks.

A default lives here and nowhere else. Published numbers live in `configs/*.gin`
with their source. Standard library only, so that a wrong value is reported
before anything heavy is imported.
"""

import dataclasses
from typing import Optional

from impala_tf import config_environment
from impala_tf import config_fields
from impala_tf.population import knobs as population_knobs

# All others know them by these names.
UserError = config_fields.UserError
ConfigError = config_fields.ConfigError
ActorConfig = config_environment.ActorConfig
EnvironmentConfig = config_environment.EnvironmentConfig
AtariConfig = config_environment.AtariConfig
DmlabConfig = config_environment.DmlabConfig
VizdoomConfig = config_environment.VizdoomConfig
PopulationConfig = population_knobs.PopulationConfig
ReplayConfig = config_environment.ReplayConfig
AsyncConfig = config_environment.AsyncConfig
_knob = config_fields.knob


@dataclasses.dataclass(frozen=True)
class AgentConfig(config_fields.Section):
  """The network (figure 3 of the paper).

  Attributes:
    torso: 'shallow', 'nature' or 'deep' for images, 'mlp' for anything else,
      or another of docs/networks_and_algorithms.md, or of a file of your own.
    use_lstm: put an LSTM between the torso and the heads.
    hidden_size: units of the torso's last layer (of each layer of 'mlp').
    lstm_size: units of the LSTM.
    torso_gain: factor of the standard deviation of the torso's initial kernels.
      1 is that of the paper's code; sqrt(2) keeps the variance of what passes
      through ReLUs (He et al. 2015). Torsos of your own see to their weights
      themselves.
    instruction_length: words of an instruction that are read, by an LSTM beside
      the torso; what is longer is cut. 0 for agents that read none. All of
      DeepMind Lab is within 16, BabyAI with two tasks in a sentence is not.
    normalise_observations: subtract the running mean of vectors, and divide by
      their running standard deviation; images stay as they are.
  """
  torso: str = _knob('shallow', source='figure 3')
  use_lstm: bool = _knob(False, source='figure 3')
  hidden_size: int = _knob(256, at_least=1, source='figure 3')
  lstm_size: int = _knob(256, at_least=1, source='figure 3')
  torso_gain: float = _knob(1.0, above=0, source='published code')
  instruction_length: int = _knob(
      0, at_least=0, unit='words', source='figure 3')
  normalise_observations: bool = _knob(False)


@dataclasses.dataclass(frozen=True)
class ImpalaConfig(config_fields.Section):
  """The V-trace actor-critic loss (sections 4.1 and 4.2).

  Attributes:
    discount: gamma.
    baseline_cost: weight of the baseline's loss.
    entropy_cost: weight of the entropy bonus.
    reward_clipping: how rewards are clipped in the loss: 'abs_one' to [-1, 1],
      'tanh_asymmetric' as in figure D.1, 'soft_asymmetric' as in the published
      code, or 'none'.
    clip_rho_threshold: rho-bar; None for no clipping.
    clip_pg_rho_threshold: rho-bar of the policy gradient; None likewise.
    clip_c_threshold: c-bar; None likewise.
    lambda_: the factor of remark 2.
    correction: correction for unrolls that an older policy played: 'vtrace',
      or one that the paper compares it with (section 5.2.2): 'one_step_is',
      'epsilon' or 'none'. See `off_policy`.
    pg_bootstrap: value that the policy gradient's advantage bootstraps from:
      'vs', the V-trace target, or 'value', the baseline alone (appendix E.3).
    popart_step_size: weight of each V-trace target in the moments by which
      'impala_popart', or 'laser', normalises values and advantages (Hessel et
      al. 2018); None: they stay as they are.
  """
  discount: float = _knob(0.99, at_least=0, below=1, source='tables D.3, G.1')
  baseline_cost: float = _knob(0.5, at_least=0, source='tables D.3, G.1')
  entropy_cost: float = _knob(0.01, at_least=0, source='tables D.1, G.1')
  reward_clipping: str = _knob(
      'abs_one',
      choices=('none', 'abs_one', 'tanh_asymmetric', 'soft_asymmetric'),
      source='tables D.3, G.1')
  clip_rho_threshold: Optional[float] = _knob(
      1.0, at_least=0, source='section 4.1')
  clip_pg_rho_threshold: Optional[float] = _knob(
      1.0, at_least=0, source='section 4.2')
  clip_c_threshold: Optional[float] = _knob(
      1.0, at_least=0, source='section 4.1')
  lambda_: float = _knob(
      1.0, at_least=0, at_most=1, source='section 4.1, remark 2')
  correction: str = _knob(
      'vtrace', choices=('vtrace', 'one_step_is', 'epsilon', 'none'),
      source='section 5.2.2')
  pg_bootstrap: str = _knob(
      'vs', choices=('vs', 'value'), source='appendix E.3')
  popart_step_size: Optional[float] = _knob(
      None, above=0, below=1, source='Hessel et al. 2018')


@dataclasses.dataclass(frozen=True)
class LaserConfig(config_fields.Section):
  """The trust region of 'laser' (Schmitt et al. 2020, section 4.3).

  Attributes:
    trust_region: divergence that is bounded at each state, from the policy that
      learns to 'implied', the one that V-trace's clipping leads to (section
      4.3), or to 'behaviour', the one that acted (the supplement's algorithm
      1), which rejects more. Policies other than over one choice of several
      actions have 'behaviour' only.
    threshold: b, in nats; steps whose state has a divergence of b or more are
      not learned from. The paper does not state its own. None: all are.
    entropy_of_replayed: add the entropy bonus for replayed unrolls, too, where
      the paper has it on fresh ones only.
  """
  trust_region: str = _knob(
      'implied', choices=('implied', 'behaviour'),
      source='Schmitt et al. 2020, section 4.3')
  threshold: Optional[float] = _knob(0.3, above=0, unit='nats')
  entropy_of_replayed: bool = _knob(
      False, source='Schmitt et al. 2020, section 5.1')


@dataclasses.dataclass(frozen=True)
class OptimizerConfig(config_fields.Section):
  """RMSProp as TensorFlow 1 computed it; see `rmsprop.RMSProp`.

  Attributes:
    learning_rate: learning rate at frame 0.
    annealed: whether the learning rate falls linearly to 0 at `total_frames`,
      as in the paper; else it stays as it is.
    decay: share of the mean square that an update keeps.
    epsilon: added inside the square root.
    momentum: 0 for none.
    bias_correction: whether mean squares start at 0 and are divided by the
      weight of what is in them, as Adam's are; else they start at 1, and the
      first 600 updates or so take small steps.
    max_gradient_norm: global norm to which gradients are clipped; None: never.
      Table G.1 has 40 for Atari, and appendix D none for DeepMind Lab.
    max_skipped_updates: skipped updates in a row after which the run ends and
      the last batch is saved. An update is skipped where its gradients are not
      finite.
  """
  learning_rate: float = _knob(6e-4, above=0, source='tables D.1, G.1')
  annealed: bool = _knob(True, source='table G.1')
  decay: float = _knob(0.99, at_least=0, below=1, source='published code')
  epsilon: float = _knob(0.01, above=0, source='tables D.1, G.1')
  momentum: float = _knob(0.0, at_least=0, below=1, source='tables D.3, G.1')
  bias_correction: bool = _knob(False, source='Kingma and Ba 2015')
  max_gradient_norm: Optional[float] = _knob(
      None, above=0, source='appendix D')
  max_skipped_updates: int = _knob(20, at_least=1)


@dataclasses.dataclass(frozen=True)
class LearnerConfig(config_fields.Section):
  """The learner: the batch of an update and how the update is computed.

  Attributes:
    batch_size: B, unrolls in an update of each learner. Updates of A3C
      (`AsyncConfig`) are of a segment each, whatever this is.
    unroll_length: T, agent steps in an unroll; in place of it A3C has
      `AsyncConfig.max_segment_steps`.
    num_learners: N, processes that update together, each with a queue and
      actors of its own: an update is of N x B unrolls.
    queue_capacity: unrolls that wait in the queue before actors block. Each
      adds to the policy lag.
    num_threads: TensorFlow's threads in the learner on a CPU; None: what fits
      the machine.
    xla: compile the step: 'auto' does so on GPU and TPU only (on a CPU XLA
      loses on every convolution).
    precision: 'mixed_bfloat16' has the learner's torso compute in bfloat16, for
      TPUs, recent GPUs and CPUs with AMX or AVX-512 BF16; 'auto' does so on
      such a CPU and with torsos that gain by it, 'shallow', 'nature' and
      'deep', unless `in_process`. With either, actors on such a CPU infer in
      bfloat16 with such torsos. Evaluators, checkpoints and exported agents are
      float32.
  """
  batch_size: int = _knob(
      32, at_least=1, unit='unrolls', source='tables 1, G.1')
  unroll_length: int = _knob(
      20, at_least=1, unit='steps', source='tables D.3, G.1')
  num_learners: int = _knob(1, at_least=1, unit='processes', source='section 3')
  queue_capacity: int = _knob(16, at_least=1, unit='unrolls')
  num_threads: Optional[int] = _knob(None, at_least=1, unit='threads')
  xla: str = _knob('auto', choices=('auto', 'on', 'off'))
  precision: str = _knob(
      'float32', choices=('float32', 'mixed_bfloat16', 'auto'))


@dataclasses.dataclass(frozen=True)
class ExperimentConfig(config_fields.Section):
  """The run as a whole.

  Attributes:
    algorithm: name of a row of `algorithms.table`, such as 'impala',
      'impala_popart', which normalises values by level, 'laser', for much
      replay, or 'a3c'; or a name that a file of your own registers
      (docs/networks_and_algorithms.md).
    seed: seed of parameters, environments and action sampling.
    total_frames: environment frames that are learned from.
    in_process: actor and learner take turns in one process: slow, and the same
      numbers from the same seed every time.
    checkpoint_interval_secs: time between two checkpoints, the most learning
      that a kill can lose.
    checkpoints_to_keep: newest checkpoints on disk.
    log_interval_secs: time between rows of `metrics.jsonl`.
    log_interval_updates: updates between rows where actor and learner take
      turns in one process, so that rows have the same numbers every time.
    evaluation_episodes: full games that an evaluator plays of each level.
    evaluation_interval_secs: least time from one evaluation's start to the
      next.
    evaluation_video_interval_secs: least time from one video of an evaluated
      game to the next; None for no videos.
  """
  algorithm: str = _knob('impala')
  seed: int = _knob(1, at_least=0)
  total_frames: int = _knob(200_000_000, at_least=1, source='section 5.3.2')
  in_process: bool = _knob(False)
  checkpoint_interval_secs: float = _knob(120.0, above=0)
  checkpoints_to_keep: int = _knob(3, at_least=2, unit='checkpoints')
  log_interval_secs: float = _knob(5.0, above=0)
  log_interval_updates: int = _knob(1, at_least=1)
  evaluation_episodes: int = _knob(20, at_least=1, unit='episodes')
  evaluation_interval_secs: float = _knob(300.0, above=0)
  evaluation_video_interval_secs: Optional[float] = _knob(None, above=0)


@dataclasses.dataclass(frozen=True)
class Config:
  """The config of one run: all sections.

  Raises:
    ConfigError: where two values do not go together.
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
    self._check_replay()
    if self.actor.env_processes and self.experiment.in_process:
      raise ConfigError(
          'ActorConfig.env_processes cannot go with '
          'ExperimentConfig.in_process, which promises the same numbers every '
          'time: which environments are ready together is chance; leave one of '
          'them out')
    self._check_learners()
    self._check_controlled_lag()
    self._check_synchronisation()
    self._check_population()

  def _check_replay(self):
    """Raises ConfigError for a replay that cannot be sampled so."""
    batch_size = self.learner.batch_size
    replay, fraction = self.replay, self.replay.replay_fraction
    off = abs(batch_size * fraction - self.num_replayed)
    if off > 1e-6 or (fraction < 1 and self.num_replayed == batch_size):
      raise ConfigError(
          f'ReplayConfig.replay_fraction is {fraction}, which of a batch of '
          f'{batch_size} is no whole number of unrolls; use a multiple of '
          f'1/{batch_size}')
    if (fraction == 1) != (replay.pacing_unrolls is not None):
      raise ConfigError(
          f'ReplayConfig.pacing_unrolls is {replay.pacing_unrolls}, but '
          f'ReplayConfig.replay_fraction is {fraction}; a number goes with a '
          'fraction of 1, and None with others')
    if replay.core_state == 'recomputed' and (
        replay.sampling != 'episodes' or not self.agent.use_lstm):
      raise ConfigError(
          "ReplayConfig.core_state = 'recomputed' needs ReplayConfig.sampling "
          "= 'episodes' and AgentConfig.use_lstm = True")

  def _check_learners(self):
    """Raises ConfigError for settings that several learners cannot have."""
    if self.learner.num_learners == 1:
      return
    if self.experiment.in_process:
      raise ConfigError(
          'LearnerConfig.num_learners needs processes, but '
          'ExperimentConfig.in_process allows only one; leave one of them out')
    for is_set, name in (
        (self.replay.survives_resume, 'survives_resume'),
        (self.replay.sampling == 'priorities', "sampling = 'priorities'")):
      if self.num_replayed and is_set:
        raise ConfigError(
            f'ReplayConfig.{name} is for a single learner; leave it out, or '
            'set LearnerConfig.num_learners = 1')

  def _check_controlled_lag(self):
    """Raises ConfigError unless one version plays each batch whole."""
    if self.actor.controlled_lag_updates is None:
      return
    if not self.experiment.in_process:
      raise ConfigError(
          'ActorConfig.controlled_lag_updates needs '
          'ExperimentConfig.in_process = True: between processes the queue '
          'adds a lag of its own')
    if self.actor.fetch_interval_unrolls > 1:
      raise ConfigError(
          'ActorConfig.fetch_interval_unrolls must be 1 where '
          'ActorConfig.controlled_lag_updates is given: parameters that are '
          'kept grow older than that')
    num_envs = self.actor.num_envs
    if num_envs is None or self.num_fresh % num_envs:
      raise ConfigError(
          f'ActorConfig.controlled_lag_updates needs ActorConfig.num_envs to '
          f'divide the {self.num_fresh} new unrolls of a batch, but it is '
          f'{num_envs}')

  def _check_synchronisation(self):
    """Raises ConfigError for settings that batched A2C cannot have."""
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
        raise ConfigError(
            f'ActorConfig.synchronisation = {actor.synchronisation!r} needs '
            f"{remedy}: {reason}; set it so, or synchronisation to 'none'")

  def _check_population(self):
    """Raises ConfigError for settings that no member of a population has."""
    if not self.population.member_names:
      return
    if self.learner.num_learners > 1:
      raise ConfigError(
          'LearnerConfig.num_learners must be 1 for a member of a population, '
          'since one learner decides; leave it out')
    if 'max_gradient_norm' in self.population.adapted_names and (
        self.optimizer.max_gradient_norm is None):
      raise ConfigError(
          'PopulationConfig.adapted names max_gradient_norm, but '
          'OptimizerConfig.max_gradient_norm is None: what is not clipped has '
          'no threshold; leave one of them out')

  @property
  def learner_plays(self) -> bool:
    """Whether the learner's process plays, and there are no actors."""
    return self.actor.synchronisation == 'step'

  @property
  def num_replayed(self) -> int:
    """Unrolls of a batch that come from the replay."""
    return round(self.learner.batch_size * self.replay.replay_fraction)

  @property
  def num_fresh(self) -> int:
    """Unrolls that come from the queue for each update.

    The batch has them, unless all of it is replayed.
    """
    return self.replay.pacing_unrolls or (
        self.learner.batch_size - self.num_replayed)

  @property
  def has_priorities(self) -> bool:
    """Whether the replay is sampled by priorities."""
    return bool(self.num_replayed) and self.replay.sampling == 'priorities'

  @property
  def chain_unrolls(self) -> Optional[int]:
    """Most unrolls in an item of the replay; None where an item is one."""
    if self.num_replayed and self.replay.sampling == 'episodes':
      return self.replay.episode_unrolls
    return None
