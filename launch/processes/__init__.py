"""Child processes: starting them, keeping them alive, ending them together.

May import of `impala_tf` the config only; nothing in `impala_tf` imports it.
"""
