"""Options of the learner, its optimiser and its replay."""

import dataclasses
from typing import Optional

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class LearnerConfig(fields.Section):
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
class OptimizerConfig(fields.Section):
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
    replay_fraction: share of each batch that is sampled from the replay, which
      must be a whole number of unrolls; 0 for no replay. Replayed unrolls do
      not count as frames.
    pacing_unrolls: new unrolls that come, count as frames and enter the replay
      for each update where all of its batch is replayed, so that
      `replay_fraction` is 1; else None.
    capacity_unrolls: unrolls that the replay holds; the oldest make room for
      the newest.
    sampling: 'unrolls', each as likely; 'episodes', each as likely, of which
      the unrolls follow one by one; or 'priorities', by the critic's loss.
    episode_unrolls: most unrolls in an episode that is sampled as such, longer
      ones are cut. The replay holds `capacity_unrolls` / `episode_unrolls`
      episodes, however short: no more than the longest episode needs.
    core_state: memory with which a replayed unroll begins: 'stored', as the
      actor had it, or 'recomputed' by the newest parameters, from the episode's
      start on; needs sampling by episodes.
    priority_exponent: alpha; unrolls are sampled by the power of their loss.
    priority_correction: beta; updates are weighted by 1 / P**beta.
    survives_resume: write the replay with every checkpoint, which takes as much
      room on disk as in memory, so that a resumed run has it again.
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
