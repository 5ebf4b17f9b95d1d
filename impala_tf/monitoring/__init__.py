"""Records of a run's course: metrics, videos, profiles, skipped updates.

May import `config`, `types`, `storage` and `suites`.
"""
