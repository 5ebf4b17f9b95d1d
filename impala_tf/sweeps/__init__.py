"""Sweeps of training runs: the plan of a sweep and its results.

May import the config only; nothing else in `impala_tf` imports this room.
"""

# Files of sweeps, old ones too, bind `sweeps.SweepConfig`.
from impala_tf.sweeps.plan import SweepConfig

__all__ = ['SweepConfig']
