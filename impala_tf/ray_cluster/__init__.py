"""Runs and sweeps on a Ray cluster.

May import `impala_tf`, `launch.processes` and `launch.run`.
"""
