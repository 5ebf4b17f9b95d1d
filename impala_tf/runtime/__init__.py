"""Processes: starting and supervising them, mostly without TensorFlow."""
