"""Processes: starting and supervising them, mostly without TensorFlow.

May import `config`, `storage`, `suites`, `types` and `optimizers`.
"""
