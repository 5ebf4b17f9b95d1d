"""Options of the network and of its loss."""

import dataclasses
from typing import Optional

from impala_tf.config import fields

# They divide what they see by 255.
IMAGE_TORSOS = ('shallow', 'nature', 'deep', 'linear_convolutions', 'grid')


@dataclasses.dataclass(frozen=True)
class AgentConfig(fields.Section):
  """The network (figure 3 of the paper).

  Attributes:
    torso: 'shallow', 'nature' or 'deep' for images, 'grid' for small ones,
      'mlp' for anything else, 'auto' for whichever fits what is observed; or
      another of docs/networks_and_algorithms.md, or of a file of your own.
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
  trust_region: str = fields.option(
      'implied', choices=('implied', 'behaviour'),
      source='Schmitt et al. 2020, section 4.3')
  threshold: Optional[float] = fields.option(0.3, above=0, unit='nats')
  entropy_of_replayed: bool = fields.option(
      False, source='Schmitt et al. 2020, section 5.1')
