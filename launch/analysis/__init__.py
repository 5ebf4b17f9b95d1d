"""Figures and tables from finished sweeps, and small copies of runs and sweeps.

The figures are the paper's and those of what follows from it. May import
`impala_tf`, `launch.run` and `launch.report`.
"""
