"""Options of the optimiser."""

import dataclasses

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class OptimizerConfig(fields.Section):
  """RMSProp as TensorFlow 1 computed it; see `rmsprop.RMSProp`.

  Attributes:
    learning_rate: learning rate at frame 0.
    annealed: whether the learning rate falls linearly to 0 at `total_frames`,
      as in the paper; else it is constant.
    annealed_share: share of the run, at its end, in which an annealed learning
      rate and entropy cost fall; until then they stay. 1: they fall all along.
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
  annealed_share: float = fields.option(1.0, above=0, at_most=1)
  decay: float = fields.option(
      0.99, at_least=0, below=1, source='published code')
  epsilon: float = fields.option(0.01, above=0, source='tables D.1, G.1')
  momentum: float = fields.option(
      0.0, at_least=0, below=1, source='tables D.3, G.1')
  bias_correction: bool = fields.option(False, source='Kingma and Ba 2015')
  max_gradient_norm: float | None = fields.option(
      None, above=0, source='appendix D')
  max_skipped_updates: int = fields.option(20, at_least=1)
