"""Options of the losses, of the optimiser and of A3C's workers."""

import dataclasses
from typing import Optional

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class ImpalaConfig(fields.Section):
  """The V-trace actor-critic loss (sections 4.1 and 4.2).

  Attributes:
    discount: gamma.
    baseline_cost: weight of the baseline's loss.
    entropy_cost: weight of the entropy bonus at frame 0.
    entropy_annealed_to: share of `entropy_cost` that is left at
      `total_frames`; the weight falls linearly. 1: it stays as it is.
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
  entropy_annealed_to: float = fields.option(1.0, at_least=0, at_most=1)
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
class AsyncConfig(fields.Section):
  """Workers that share parameters without locks (Mnih et al. 2016).

  Only the algorithms of that paper read it: 'a3c', 'a3c_continuous',
  'one_step_q', 'one_step_sarsa' and 'n_step_q'. Their workers take turns in
  `ActorConfig.num_actors` processes. Workers that learn values do not read
  `ImpalaConfig.correction`, `entropy_cost` and `baseline_cost`.

  Attributes:
    num_workers: K, workers with an environment each; never fewer than
      processes.
    max_segment_steps: t_max, most steps that a worker plays between two of its
      updates; an end of an episode ends them sooner. None: a whole episode,
      which is bootstrapped only if a time limit ends it.
    target_interval_frames: frames of all workers together after which the
      target network is replaced.
    epsilon_anneal_frames: frames of all workers together within which epsilon
      falls from 1 to each worker's final one.
    optimizer: 'shared_rmsprop', whose mean squares all workers share; or
      'rmsprop' or 'momentum_sgd', with mean squares, or momenta, of each
      worker. An update keeps the share `OptimizerConfig.decay` of them.
    initial_mean_square: start of RMSProp's mean squares. The paper does not
      give it; TensorFlow 1 has 1.
    share_memory: whether workers on the learner's machine change the parameters
      in its memory; if not, they send gradients, as on other machines.
  """
  num_workers: int = fields.option(
      16, at_least=1, unit='workers', source='Mnih et al. 2016, section 8')
  max_segment_steps: Optional[int] = fields.option(
      5, at_least=1, source='Mnih et al. 2016, section 8')
  target_interval_frames: int = fields.option(
      40_000, at_least=1, source='Mnih et al. 2016, section 8')
  epsilon_anneal_frames: int = fields.option(
      4_000_000, at_least=1, source='Mnih et al. 2016, section 8')
  optimizer: str = fields.option(
      'shared_rmsprop', choices=('shared_rmsprop', 'rmsprop', 'momentum_sgd'),
      source='Mnih et al. 2016, section 7')
  initial_mean_square: float = fields.option(0.0, at_least=0)
  share_memory: bool = fields.option(True)
