"""Options of LASER's trust region."""

import dataclasses

from impala_tf.config import fields


@dataclasses.dataclass(frozen=True)
class LaserConfig(fields.Section):
  """The trust region of 'laser' (Schmitt et al. 2020, section 4.3).

  Attributes:
    trust_region: policy whose divergence from the learned one is bounded at
      each state. 'implied' is the one that V-trace's clipping leads to (section
      4.3). 'behaviour', the one that acted (the supplement's algorithm 1),
      rejects more; it alone works for continuous and composed actions.
    threshold: b, in nats; steps whose state has a divergence of b or more are
      not learned from. The paper gives no value. None: all are learned from.
    entropy_of_replayed: add the entropy bonus for replayed unrolls, too; the
      paper adds it for fresh ones only.
  """
  trust_region: str = fields.option(
      'implied', choices=('implied', 'behaviour'),
      source='Schmitt et al. 2020, section 4.3')
  threshold: float | None = fields.option(0.3, above=0, unit='nats')
  entropy_of_replayed: bool = fields.option(
      False, source='Schmitt et al. 2020, section 5.1')
