"""Figures and tables from finished sweeps, and small copies of runs and sweeps.

May import `impala_tf`, `launch.run` and `launch.report`.
"""
