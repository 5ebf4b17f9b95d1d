"""Pure functions of an update: rate annealing and gradient clipping."""

from typing import Sequence

import tensorflow as tf


def remaining_share(frames: int | tf.Tensor, total_frames: int,
                    annealed_share: float) -> tf.Tensor:
  """Computes the factor of an annealed value: 1, then a linear fall to 0.

  Returns float32 []. The fall takes the last `annealed_share` of all frames,
  from 0 (exclusive) to 1; with 1 it begins at frame 0, as in the paper (table
  G.1). `frames` are environment frames so far, `total_frames`, above 0, those
  of the whole run.
  """
  # In integers, because float32 rounds 199,999,999 to 200,000,000.
  remaining = tf.maximum(total_frames - tf.cast(frames, tf.int64), 0)
  return tf.minimum(1., tf.cast(
      remaining / total_frames / annealed_share, tf.float32))


def clip_by_global_norm(
    gradients: Sequence[tf.Tensor], max_norm: float | tf.Tensor | None
) -> tuple[Sequence[tf.Tensor], tf.Tensor]:
  """Scales gradients down together so that their norm is at most `max_norm`.

  `max_norm` bounds the l2 norm of all gradients taken as one vector; None: do
  not clip. Returns also their norm BEFORE clipping.

  If a gradient is not finite, the norm is not either. With a `max_norm` ALL
  gradients are then NaN. So callers check the norm before they apply them.
  """
  norm = tf.linalg.global_norm(gradients)
  if max_norm is not None:
    gradients, _ = tf.clip_by_global_norm(gradients, max_norm, use_norm=norm)
  return gradients, norm
