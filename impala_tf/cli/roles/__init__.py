"""Roles of runs as programs, and their flags.

May import `impala_tf`, `impala_tf.runtime` and `impala_tf.runs`.
"""
