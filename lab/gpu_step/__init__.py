"""The learner's update as an XLA program, for machines without TensorFlow.

May import `impala_tf` and `lab.bench`.
"""
