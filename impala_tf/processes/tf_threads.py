"""TensorFlow's threads on a CPU."""

import tensorflow as tf


def set_threads(num_threads: int) -> None:
  """Sets how many there are; before anything else is computed.

  Two run an operation each (a layer's gradients of its input and its kernel,
  say), which costs less CPU than to share each operation. From three on they
  share, two operations at a time: with fewer threads an operation a third core
  would stay idle (docs/performance.md has the numbers).
  """
  tf.config.threading.set_intra_op_parallelism_threads(
      num_threads if num_threads > 2 else 1)
  tf.config.threading.set_inter_op_parallelism_threads(min(num_threads, 2))
