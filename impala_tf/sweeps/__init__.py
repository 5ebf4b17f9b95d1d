"""Which runs a sweep is made of, and what became of them.

Imports the config only; nothing else in `impala_tf` imports this room.
"""

# Files of sweeps, old ones too, bind `sweeps.SweepConfig`.
from impala_tf.sweeps.plan import SweepConfig

__all__ = ['SweepConfig']
