"""Options of population based training."""

import dataclasses
import re

from impala_tf.config import fields

# Fields of `optimizers.hyperparameters.Hyperparameters`.
ADAPTABLE = ('learning_rate', 'epsilon', 'entropy_cost', 'max_gradient_norm')


@dataclasses.dataclass(frozen=True)
class PopulationConfig(fields.Section):
  """Population based training: runs that copy the better ones (appendix F).

  Attributes:
    members: names of the runs of a population, two or more with commas between
      them, which `population` binds. Their directories lie side by
      side, and a run's own directory has one of these names. Empty for a run
      by itself, which reads none of the other options.
    adapted: hyper-parameters that are mutated, with commas between them. All
      are copied: learning_rate, epsilon, entropy_cost and max_gradient_norm.
    burn_in_frames: frames of a member before which its episodes do not count
      and it decides nothing.
    decision_episodes: episodes of a member, of all levels together, between two
      decisions. Small tasks want 1,000 or more: with fewer, members copy others
      that are better by chance alone (docs/pbt.md).
    copy_margin: a member is copied if its fitness leads by more than this;
      fitness is 1 for a human on each level.
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
  random_score: float | None = fields.option(None, unit='return')
  human_score: float | None = fields.option(None, unit='return')

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
  def member_names(self) -> list[str]:
    """Names of all members; empty if the run belongs to no population."""
    return self.members.split(',') if self.members else []

  @property
  def adapted_names(self) -> list[str]:
    """Names of the hyper-parameters that are adapted."""
    return [name.strip() for name in self.adapted.split(',')]
