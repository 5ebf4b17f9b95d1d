"""Programs of a run's roles (learner, actor, evaluator, replay), and flags.

May import `impala_tf`, `impala_tf.runtime` and `impala_tf.runs`.
"""
