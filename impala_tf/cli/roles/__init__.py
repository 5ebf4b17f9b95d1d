"""Roles of runs as programs of their own, and their flags.

May import `impala_tf`, `launch.processes` and `launch.run`.
"""
