"""Figures and tables of the paper's analysis, from finished sweeps.

May import `impala_tf`, `launch.run` and `launch.report`.
"""
