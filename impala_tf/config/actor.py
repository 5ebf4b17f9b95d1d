"""Options of the actors, and of A3C's workers."""

import dataclasses
from typing import Optional

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class ActorConfig(fields.Section):
  """The processes that play.

  Attributes:
    num_actors: processes; None: as many as fit the machine.
    num_envs: environments a process, stepped and inferred as one batch; None:
      what fits the machine. Several levels are shared out over all environments
      of a run in turn: a multiple of their number gives each the same share.
      Workers of A3C (`AsyncConfig`) have one each, whatever this is.
    env_processes: processes beside each of these that step its environments,
      so that none waits for another and inference is of those that are ready.
      Those that share a process still wait for each other. None: environments
      are stepped in turn, in lock-step, as Atari always is.
    env_timeout_secs: after which an environment process that is still at a
      step, or at making one environment, is taken for hung.
    max_restarts: restarts of one actor within `restart_window_secs`, after
      which the run ends with that actor's error.
    restart_window_secs: see `max_restarts`.
    pinned: whether each actor stays on a core of its own. Only where `train.sh`
      starts as many as there are cores, they have no `env_processes`, and no
      other run on the machine does so; runs in other containers are not seen.
    fetch_interval_unrolls: k; parameters are fetched as every kth unroll begins
      and kept until the next. More than 1 divides the traffic of parameters,
      and makes the policy lag grow (docs/scaling.md).
    synchronisation: who waits for whom (figure 2). 'none' is IMPALA: nobody
      does. The others are batched A2C (docs/baselines.md), where an update is
      of one unroll of each environment, by the newest parameters: 'trajectory'
      has actors play them and wait for the update, 'step' has the learner play
      all environments together, step by step.
    controlled_lag_updates: N, to have actors act with parameters exactly N
      learner updates old (appendix E.1), if `in_process`; None: with the newest
      there are.
  """
  num_actors: Optional[int] = fields.option(
      None, at_least=1, unit='processes', source='section 3')
  num_envs: Optional[int] = fields.option(None, at_least=1, unit='environments')
  env_processes: Optional[int] = fields.option(
      None, at_least=1, unit='processes', source='section 3.1')
  env_timeout_secs: float = fields.option(120.0, above=0)
  max_restarts: int = fields.option(5, at_least=0)
  restart_window_secs: float = fields.option(600.0, above=0)
  pinned: bool = fields.option(True)
  fetch_interval_unrolls: int = fields.option(1, at_least=1)
  synchronisation: str = fields.option(
      'none', choices=('none', 'step', 'trajectory'), source='figure 2')
  controlled_lag_updates: Optional[int] = fields.option(
      None, at_least=0, source='appendix E.1')


@dataclasses.dataclass(frozen=True)
class AsyncConfig(fields.Section):
  """Workers that share parameters without locks (Mnih et al. 2016).

  Only the algorithms of that paper read it: 'a3c', 'a3c_continuous',
  'one_step_q', 'one_step_sarsa' and 'n_step_q'. Their workers take turns in
  `ActorConfig.num_actors` processes. Those that learn values do not read
  `ImpalaConfig.correction`, `entropy_cost` and `baseline_cost`.

  Attributes:
    num_workers: K, workers with an environment each; or as many as there are
      processes, if those are more.
    max_segment_steps: t_max, most steps that a worker plays between two of its
      updates; an end of an episode ends them sooner. None: a whole episode,
      which is bootstrapped only where a time limit ends it.
    target_interval_frames: frames of all workers together after which the
      target network is replaced.
    epsilon_anneal_frames: frames of all workers together within which epsilon
      falls from 1 to each worker's final one.
    optimizer: 'shared_rmsprop', whose mean squares all workers share; or
      'rmsprop' or 'momentum_sgd', with those, or momenta, of each worker.
      `OptimizerConfig.decay` is the share of them that an update keeps.
    initial_mean_square: start of RMSProp's mean squares. The paper does not
      give it; TensorFlow 1 has 1.
    share_memory: whether workers on the learner's machine change the parameters
      in its memory; if not, they send gradients, as those of other machines do.
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
