"""Options of the learner."""

import dataclasses

from impala_tf.config import fields


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
  num_threads: int | None = fields.option(None, at_least=1, unit='threads')
  xla: str = fields.option('auto', choices=('auto', 'on', 'off'))
  precision: str = fields.option(
      'float32', choices=('float32', 'mixed_bfloat16', 'auto'))
