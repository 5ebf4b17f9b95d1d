"""Records of a run's course: metrics, profiles, skipped updates.

May import `config`, `types`, `storage` and `suites`.
"""
