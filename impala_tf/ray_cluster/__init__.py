"""Runs and sweeps on a Ray cluster.

May import `config`, `storage`, `suites`, `runtime` and `runs`.
"""
