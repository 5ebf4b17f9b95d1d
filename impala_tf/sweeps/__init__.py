"""Plans of sweeps, which list their runs, and results of the runs."""

# Files of sweeps, old ones too, bind `sweeps.SweepConfig`.
from impala_tf.sweeps.plan import SweepConfig

__all__ = ['SweepConfig']
