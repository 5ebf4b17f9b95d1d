"""Plans of sweeps, which list their runs, and results of the runs."""
