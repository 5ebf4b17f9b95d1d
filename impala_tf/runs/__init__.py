"""The directory of a run or a sweep: configs, locks, metrics, videos."""
