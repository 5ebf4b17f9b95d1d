"""Options of the agent, and of how it learns."""

import dataclasses
import re
from typing import List, Optional

from impala_tf.config import fields

# Torsos of images, whose pixels they divide by 255.
IMAGE_TORSOS = ('shallow', 'nature', 'deep', 'linear_convolutions', 'grid')
# Fields of `optimizers.hyperparameters.Hyperparameters`.
ADAPTABLE = ('learning_rate', 'epsilon', 'entropy_cost', 'max_gradient_norm')


@dataclasses.dataclass(frozen=True)
class AgentConfig(fields.Section):
  """The network (figure 3 of the paper).

  Attributes:
    torso: 'shallow', 'nature' or 'deep' for images, 'grid' for small ones,
      'mlp' for anything else, 'auto' for whichever fits the observations.
      docs/networks_and_algorithms.md has others, and how to register yours.
    use_lstm: put an LSTM between the torso and the heads.
    hidden_size: units of the torso's last layer (of each layer of 'mlp').
    lstm_size: units of the LSTM.
    torso_gain: factor of the standard deviation of the torso's initial kernels.
      1 is that of the paper's code; sqrt(2) keeps the variance behind ReLUs (He
      et al. 2015). Torsos that you register ignore it.
    instruction_length: words of an instruction that are read, by an LSTM beside
      the torso; longer ones are cut. 0 for agents that read none. All of
      DeepMind Lab is within 16, BabyAI with two tasks in a sentence is not.
    normalise_observations: subtract the running mean of vectors, and divide by
      their running standard deviation; images stay as they are.
  """
  torso: str = fields.option('shallow', source='figure 3')
  use_lstm: bool = fields.option(False, source='figure 3')
  hidden_size: int = fields.option(256, at_least=1, source='figure 3')
  lstm_size: int = fields.option(256, at_least=1, source='figure 3')
  torso_gain: float = fields.option(1.0, above=0, source='published code')
  instruction_length: int = fields.option(
      0, at_least=0, unit='words', source='figure 3')
  normalise_observations: bool = fields.option(False)

  @property
  def sees_pictures(self) -> bool:
    """Whether the torso takes pictures, whose numbers are those of bytes."""
    return self.torso in (*IMAGE_TORSOS, 'auto')


@dataclasses.dataclass(frozen=True)
class ImpalaConfig(fields.Section):
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
  discount: float = fields.option(
      0.99, at_least=0, below=1, source='tables D.3, G.1')
  baseline_cost: float = fields.option(
      0.5, at_least=0, source='tables D.3, G.1')
  entropy_cost: float = fields.option(
      0.01, at_least=0, source='tables D.1, G.1')
  reward_clipping: str = fields.option(
      'abs_one',
      choices=('none', 'abs_one', 'tanh_asymmetric', 'soft_asymmetric'),
      source='tables D.3, G.1')
  clip_rho_threshold: Optional[float] = fields.option(
      1.0, at_least=0, source='section 4.1')
  clip_pg_rho_threshold: Optional[float] = fields.option(
      1.0, at_least=0, source='section 4.2')
  clip_c_threshold: Optional[float] = fields.option(
      1.0, at_least=0, source='section 4.1')
  lambda_: float = fields.option(
      1.0, at_least=0, at_most=1, source='section 4.1, remark 2')
  correction: str = fields.option(
      'vtrace', choices=('vtrace', 'one_step_is', 'epsilon', 'none'),
      source='section 5.2.2')
  pg_bootstrap: str = fields.option(
      'vs', choices=('vs', 'value'), source='appendix E.3')
  popart_step_size: Optional[float] = fields.option(
      None, above=0, below=1, source='Hessel et al. 2018')


@dataclasses.dataclass(frozen=True)
class LaserConfig(fields.Section):
  """The trust region of 'laser' (Schmitt et al. 2020, section 4.3).

  Attributes:
    trust_region: policy whose divergence from the learned one is bounded at
      each state. 'implied' is the one that V-trace's clipping leads to (section
      4.3). 'behaviour', the one that acted (the supplement's algorithm 1),
      rejects more; it is the only one unless an action is one choice of
      several.
    threshold: b, in nats; steps whose state has a divergence of b or more are
      not learned from. The paper does not give its own. None: all are.
    entropy_of_replayed: add the entropy bonus for replayed unrolls, too; the
      paper adds it for fresh ones only.
  """
  trust_region: str = fields.option(
      'implied', choices=('implied', 'behaviour'),
      source='Schmitt et al. 2020, section 4.3')
  threshold: Optional[float] = fields.option(0.3, above=0, unit='nats')
  entropy_of_replayed: bool = fields.option(
      False, source='Schmitt et al. 2020, section 5.1')


@dataclasses.dataclass(frozen=True)
class OptimizerConfig(fields.Section):
  """RMSProp as TensorFlow 1 computed it; see `rmsprop.RMSProp`.

  Attributes:
    learning_rate: learning rate at frame 0.
    annealed: whether the learning rate falls linearly to 0 at `total_frames`,
      as in the paper; else it is constant.
    decay: share of the mean square that an update keeps.
    epsilon: added inside the square root.
    momentum: 0 for none.
    bias_correction: whether mean squares start at 0 and are divided by the
      weight of their summands, as Adam's are. Else they start at 1, and the
      first 600 updates or so take small steps.
    max_gradient_norm: global norm to which gradients are clipped; None: never.
      Table G.1 has 40 for Atari, and appendix D none for DeepMind Lab.
    max_skipped_updates: updates in a row skipped, since their gradients are not
      finite, after which the run ends and the last batch is saved.
  """
  learning_rate: float = fields.option(6e-4, above=0, source='tables D.1, G.1')
  annealed: bool = fields.option(True, source='table G.1')
  decay: float = fields.option(
      0.99, at_least=0, below=1, source='published code')
  epsilon: float = fields.option(0.01, above=0, source='tables D.1, G.1')
  momentum: float = fields.option(
      0.0, at_least=0, below=1, source='tables D.3, G.1')
  bias_correction: bool = fields.option(False, source='Kingma and Ba 2015')
  max_gradient_norm: Optional[float] = fields.option(
      None, above=0, source='appendix D')
  max_skipped_updates: int = fields.option(20, at_least=1)


@dataclasses.dataclass(frozen=True)
class ReplayConfig(fields.Section):
  """Learning again from old unrolls (section 5.2.2).

  Attributes:
    replay_fraction: share of each batch that is sampled from the replay, a
      whole number of unrolls; 0 for no replay. Replayed unrolls do not count as
      frames.
    pacing_unrolls: new unrolls that enter the replay, and count as frames, for
      each update if all of its batch is replayed (`replay_fraction` is 1); else
      None.
    capacity_unrolls: unrolls that the replay holds; the oldest make room for
      the newest.
    sampling: 'unrolls', each as likely; 'episodes', each as likely, whose
      unrolls follow one by one; or 'priorities', by the critic's loss.
    episode_unrolls: most unrolls in a sampled episode; longer ones are cut. The
      replay holds `capacity_unrolls` / `episode_unrolls` episodes, however
      short: no more than the longest episode needs.
    core_state: memory at the start of a replayed unroll: 'stored' by the actor,
      or 'recomputed' by the newest parameters. The latter is done from the
      episode's start on, and needs sampling by episodes.
    priority_exponent: alpha; unrolls are sampled by the power of their loss.
    priority_correction: beta; updates are weighted by 1 / P**beta.
    survives_resume: write the replay with every checkpoint, so that a resumed
      run has it again. It takes as much room on disk as in memory.
  """
  replay_fraction: float = fields.option(
      0.0, at_least=0, at_most=1, source='section 5.2.2')
  pacing_unrolls: Optional[int] = fields.option(
      None, at_least=1, source='Schmitt et al. 2020, figure 2')
  capacity_unrolls: int = fields.option(10_000, at_least=1, source='table D.3')
  sampling: str = fields.option(
      'unrolls', choices=('unrolls', 'episodes', 'priorities'),
      source='Schmitt et al. 2020, supplement 1.2')
  episode_unrolls: int = fields.option(32, at_least=1)
  core_state: str = fields.option('stored', choices=('stored', 'recomputed'),
                          source='Schmitt et al. 2020, supplement 1.2')
  priority_exponent: float = fields.option(
      0.6, at_least=0, source='Schaul et al. 2016, table 3')
  priority_correction: float = fields.option(
      1.0, at_least=0, at_most=1, source='Schmitt et al. 2020, supplement 1.2')
  survives_resume: bool = fields.option(False)


@dataclasses.dataclass(frozen=True)
class PopulationConfig(fields.Section):
  """Population based training: runs that copy the better ones (appendix F).

  Attributes:
    members: names of the runs of a population, two or more with commas between
      them, which `./launch/population.sh` binds. Their directories lie side by
      side, and a run's own directory has one of these names. Empty for a run
      by itself, which reads none of the other options.
    adapted: hyper-parameters that are copied and mutated, with commas between
      them, out of learning_rate, epsilon, entropy_cost and max_gradient_norm.
    burn_in_frames: frames of a member before which its episodes do not count
      and it decides nothing.
    decision_episodes: episodes of a member, of all levels together, after each
      of which it decides. Small tasks want 1,000 or more: with fewer, members
      copy others that are better by chance alone (docs/populations.md).
    copy_margin: fitness by which another member must be more than ahead to be
      copied; fitness is 1 for a human on each level.
    mutation_probability: probability that a decision changes a hyper-parameter,
      for each of them.
    mutation_factor: factor by which it is multiplied, or divided, with even
      odds.
    random_score: mean return of random play on a level of no suite.
    human_score: mean return that counts as fitness 1 on a level of no suite.
  """
  members: str = fields.option('', source='tables D.1, G.1')
  adapted: str = fields.option(
      'learning_rate,epsilon,entropy_cost', source='appendix F')
  burn_in_frames: int = fields.option(20_000_000, at_least=0,
                                      source='appendix F')
  decision_episodes: int = fields.option(
      5_000, at_least=1, unit='episodes', source='appendix F')
  copy_margin: float = fields.option(0.05, at_least=0, source='appendix F')
  mutation_probability: float = fields.option(
      0.33, at_least=0, at_most=1, source='appendix F')
  mutation_factor: float = fields.option(1.2, at_least=1, source='appendix F')
  random_score: Optional[float] = fields.option(None, unit='return')
  human_score: Optional[float] = fields.option(None, unit='return')

  def __post_init__(self):
    super().__post_init__()
    names = self.member_names
    if names and (len(set(names)) < max(2, len(names))
                  or not all(re.fullmatch(r'\w[\w.-]*', n) for n in names)):
      raise fields.ConfigError(
          'PopulationConfig.members must be two or more different names of '
          f'directories with commas between them, but is {self.members!r}')
    for name in self.adapted_names:
      if name not in ADAPTABLE:
        raise fields.ConfigError(
            f'PopulationConfig.adapted names {name!r}, but only '
            f'{", ".join(ADAPTABLE)} can be adapted')

  @property
  def member_names(self) -> List[str]:
    """Names of all members; none where the run is by itself."""
    return self.members.split(',') if self.members else []

  @property
  def adapted_names(self) -> List[str]:
    """Names of the hyper-parameters that are adapted."""
    return [name.strip() for name in self.adapted.split(',')]
