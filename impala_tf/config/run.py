"""Options of a run: its length, its processes, its batches and its replay."""

import dataclasses
from typing import Optional

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class ExperimentConfig(fields.Section):
  """The run as a whole.

  Attributes:
    algorithm: 'impala', 'impala_popart', which normalises values by level,
      'laser', for much replay, 'a3c' or another row of `algorithms.table`; or a
      name that your file registers (docs/networks_and_algorithms.md).
    seed: seed of parameters, environments and action sampling.
    total_frames: environment frames that are learned from.
    stop_at_return: mean return of the last 100 full episodes of training at
      which the run is done before `total_frames`; None for never.
    in_process: actor and learner take turns in one process: slow, and the same
      numbers from the same seed every time.
    checkpoint_interval_secs: time between two checkpoints, the most learning
      that a kill can lose.
    checkpoints_to_keep: newest checkpoints on disk.
    log_interval_secs: time between progress lines, and between rows of
      `metrics.jsonl` unless actor and learner take turns in one process.
    log_interval_updates: rows come at multiples of this number of updates. In
      one process each multiple has one, the same numbers every time.
    evaluation_episodes: full games that an evaluator plays of each level.
    evaluation_max_frames: environment frames after which an evaluated game is
      cut off and counts as it is, here and in `evaluate.sh`.
    evaluation_interval_secs: least time from one evaluation's start to the
      next.
    evaluation_video_interval_secs: least time from one video of an evaluated
      game to the next; None for no videos.
  """
  algorithm: str = fields.option('impala')
  seed: int = fields.option(1, at_least=0)
  total_frames: int = fields.option(
      200_000_000, at_least=1, source='section 5.3.2')
  stop_at_return: Optional[float] = fields.option(None)
  in_process: bool = fields.option(False)
  checkpoint_interval_secs: float = fields.option(120.0, above=0)
  checkpoints_to_keep: int = fields.option(3, at_least=2, unit='checkpoints')
  log_interval_secs: float = fields.option(5.0, above=0)
  log_interval_updates: int = fields.option(1, at_least=1)
  evaluation_episodes: int = fields.option(20, at_least=1, unit='episodes')
  evaluation_max_frames: int = fields.option(
      108_000, at_least=1, source='section 5.3.2')
  evaluation_interval_secs: float = fields.option(300.0, above=0)
  evaluation_video_interval_secs: Optional[float] = fields.option(None, above=0)


@dataclasses.dataclass(frozen=True)
class ActorConfig(fields.Section):
  """The processes that play.

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
    pinned: whether each actor stays on a core. Holds only if `train.sh` starts
      as many as there are cores, without `env_processes`, and no other run on
      the machine pins its actors; runs in other containers are not seen.
    fetch_interval_unrolls: k; parameters are fetched as every kth unroll begins
      and kept until the next. More than 1 divides the traffic of parameters,
      and makes the policy lag grow (docs/scaling.md).
    synchronisation: who waits for whom (figure 2). 'none' is IMPALA: nobody
      does. The others are batched A2C (docs/baselines.md), which updates by
      one unroll of each environment, played with the newest parameters. With
      'trajectory' actors play them and wait for the update. With 'step' the
      learner plays all environments together, step by step.
    controlled_lag_updates: N, to have actors act with parameters exactly N
      learner updates old (appendix E.1), if `in_process`; None: with the
      newest.
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
class LearnerConfig(fields.Section):
  """The learner: the batch of an update and how the update is computed.

  Attributes:
    batch_size: B, unrolls in an update of each learner. A3C (`AsyncConfig`)
      updates by one segment instead.
    unroll_length: T, agent steps in an unroll; A3C has
      `AsyncConfig.max_segment_steps` instead.
    num_learners: N, processes that update together, each with its own queue and
      actors: an update is of N x B unrolls.
    queue_capacity: unrolls that wait in the queue before actors block. Each
      adds to the policy lag.
    num_threads: TensorFlow's threads in the learner on a CPU; None: as many as
      fit the machine.
    xla: compile the step: 'auto' does so on GPU and TPU only (on a CPU XLA
      loses on every convolution).
    precision: 'mixed_bfloat16' has the learner's torso compute in bfloat16, for
      TPUs, recent GPUs and CPUs with AMX or AVX-512 BF16. 'auto' does so on
      such a CPU, with torsos that gain by it ('shallow', 'nature', 'deep') and
      unless `in_process`. With either, actors on such a CPU infer in bfloat16
      with such torsos. Evaluators, checkpoints and exported agents are float32.
  """
  batch_size: int = fields.option(
      32, at_least=1, unit='unrolls', source='tables 1, G.1')
  unroll_length: int = fields.option(
      20, at_least=1, unit='steps', source='tables D.3, G.1')
  num_learners: int = fields.option(
      1, at_least=1, unit='processes', source='section 3')
  queue_capacity: int = fields.option(16, at_least=1, unit='unrolls')
  num_threads: Optional[int] = fields.option(None, at_least=1, unit='threads')
  xla: str = fields.option('auto', choices=('auto', 'on', 'off'))
  precision: str = fields.option(
      'float32', choices=('float32', 'mixed_bfloat16', 'auto'))


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
