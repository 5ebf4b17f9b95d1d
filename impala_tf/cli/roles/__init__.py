"""Roles of runs as programs of their own, and their flags.

May import `impala_tf`, `impala_tf.runtime` and `impala_tf.runs`.
"""
