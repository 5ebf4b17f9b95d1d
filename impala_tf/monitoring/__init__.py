"""Logs of a run: rows of metrics, profiles, skipped updates.

May import `storage`, `suites`, and of the modules outside of rooms `types` and
config.
"""
