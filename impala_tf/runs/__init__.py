"""The directory of a run or a sweep: configs, locks, metrics, videos.

May import `config`, `storage`, `suites`, `sweeps`, `types` and `runtime`.
"""
