"""Number of TensorFlow's threads on a CPU."""

import contextlib

import tensorflow as tf


def set_threads(num_threads: int) -> None:
  """Sets the number of threads (at least 1) if TensorFlow has not started yet.

  Two threads run one operation each, such as a layer's gradients of its input
  and of its kernel. That costs less CPU than sharing each operation. Three or
  more threads share operations, two at a time: otherwise a third core would be
  idle (lab/reports/speed.md has the numbers).
  """
  # In the user's process it may have; then its number stays.
  with contextlib.suppress(RuntimeError):
    tf.config.threading.set_intra_op_parallelism_threads(
        num_threads if num_threads > 2 else 1)
    tf.config.threading.set_inter_op_parallelism_threads(min(num_threads, 2))
