"""Options of workers that share parameters without locks."""

import dataclasses

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class AsyncConfig(fields.Section):
  """Workers that share parameters without locks (Mnih et al. 2016).

  Only the algorithms of that paper read it: 'a3c', 'a3c_continuous',
  'one_step_q', 'one_step_sarsa' and 'n_step_q'. Their workers take turns in
  `ActorConfig.num_actors` processes. Workers that learn values read only
  `discount` and `reward_clipping` of `ImpalaConfig`.

  Attributes:
    num_workers: K workers of an environment each; no fewer than processes.
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
  max_segment_steps: int | None = fields.option(
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
