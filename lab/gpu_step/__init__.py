"""The learner's update as an XLA program, for machines without TensorFlow."""
