"""Options of the actors."""

import dataclasses

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class ActorConfig(fields.Section):
  """The processes that play, and how.

  Attributes:
    num_actors: processes; None: as many as fit the machine.
    num_envs: environments a process, stepped and inferred as one batch; None:
      as many as fit the machine. Several levels are shared out over all
      environments of a run in turn: a multiple of their number gives each the
      same share. Workers of A3C (`AsyncConfig`) have one each.
    env_processes: processes beside each actor that step its environments, so
      that inference takes the ones that are ready. None: all step in lock-step,
      as Atari always does.
    env_timeout_secs: time for a step, or for making one environment, after
      which an environment process is taken for hung.
    max_restarts: restarts of one actor within `restart_window_secs`, after
      which the run ends with that actor's error.
    restart_window_secs: see `max_restarts`.
    pinned: whether each actor stays on a core. Holds only if `train` starts
      as many as there are cores, without `env_processes`, and no other run on
      the machine pins its actors; runs in other containers are not seen.
    fetch_interval_unrolls: k; parameters are fetched as every kth unroll begins
      and kept until the next. More than 1 divides the traffic of parameters,
      and makes the policy lag grow (docs/scaling.md).
    synchronisation: what actors wait for (figure 2). 'none' is IMPALA: actors
      play on during updates. The others are batched A2C (docs/a2c.md): each
      update learns from one unroll of each environment, played with the newest
      parameters. With 'trajectory' actors play them and wait for the update.
      With 'step' the learner plays all environments together, step by step.
    controlled_lag_updates: N, to have actors act with parameters exactly N
      learner updates old (appendix E.1), if `in_process`; None: the newest.
  """
  num_actors: int | None = fields.option(
      None, at_least=1, unit='processes', source='section 3')
  num_envs: int | None = fields.option(None, at_least=1, unit='environments')
  env_processes: int | None = fields.option(
      None, at_least=1, unit='processes', source='section 5.1')
  env_timeout_secs: float = fields.option(120.0, above=0)
  max_restarts: int = fields.option(5, at_least=0)
  restart_window_secs: float = fields.option(600.0, above=0)
  pinned: bool = fields.option(True)
  fetch_interval_unrolls: int = fields.option(1, at_least=1)
  synchronisation: str = fields.option(
      'none', choices=('none', 'step', 'trajectory'), source='figure 2')
  controlled_lag_updates: int | None = fields.option(
      None, at_least=0, source='appendix E.1')
