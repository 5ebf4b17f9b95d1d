"""Records of a run's course: metrics, videos, profiles, skips of updates.

May import `config`, `types`, `storage` and `suites`.
"""
