"""Options of the V-trace loss."""

import dataclasses

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class ImpalaConfig(fields.Section):
  """The V-trace actor-critic loss (sections 4.1 and 4.2).

  Attributes:
    discount: gamma.
    baseline_cost: weight of the baseline's loss.
    entropy_cost: weight of the entropy bonus at frame 0.
    entropy_annealed_to: share of `entropy_cost` left at `total_frames`. Over
      `OptimizerConfig.annealed_share` the cost falls linearly. 1: it stays.
    reward_clipping: how rewards are clipped in the loss: 'abs_one' to [-1, 1],
      'tanh_asymmetric' as in figure D.1, 'soft_asymmetric' as in the published
      code, or 'none'.
    clip_rho_threshold: rho-bar; None for no clipping.
    clip_pg_rho_threshold: rho-bar of the policy gradient; None likewise.
    clip_c_threshold: c-bar; None likewise.
    lambda_: lambda, which shortens the traces; 1 does not.
    correction: correction for unrolls that an older policy played: 'vtrace',
      or one that the paper compares it with (section 5.2.2): 'one_step_is',
      'epsilon' or 'none'. See `vtrace`.
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
  entropy_annealed_to: float = fields.option(1.0, at_least=0, at_most=1)
  reward_clipping: str = fields.option(
      'abs_one',
      choices=('none', 'abs_one', 'tanh_asymmetric', 'soft_asymmetric'),
      source='tables D.3, G.1')
  clip_rho_threshold: float | None = fields.option(
      1.0, at_least=0, source='section 4.1')
  clip_pg_rho_threshold: float | None = fields.option(
      1.0, at_least=0, source='section 4.2')
  clip_c_threshold: float | None = fields.option(
      1.0, at_least=0, source='section 4.1')
  lambda_: float = fields.option(
      1.0, at_least=0, at_most=1, source='section 4.1, remark 2')
  correction: str = fields.option(
      'vtrace', choices=('vtrace', 'one_step_is', 'epsilon', 'none'),
      source='section 5.2.2')
  pg_bootstrap: str = fields.option(
      'vs', choices=('vs', 'value'), source='appendix E.3')
  popart_step_size: float | None = fields.option(
      None, above=0, below=1, source='Hessel et al. 2018')
