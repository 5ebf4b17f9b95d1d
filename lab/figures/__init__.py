"""The papers' figures and tables, from finished sweeps.

May import `impala_tf`.
"""
