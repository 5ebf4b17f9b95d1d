"""Processes on a machine and their peers: ports, waiting, threads, sizes.

May import `storage`, `suites`, and of the modules outside of rooms `types` and
config.
"""
