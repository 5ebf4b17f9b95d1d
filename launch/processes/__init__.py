"""Child processes: starting, supervising and ending them.

May import `impala_tf.config`; nothing in `impala_tf` imports this room.
"""
