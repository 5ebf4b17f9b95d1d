"""The pure parts of an update: the annealed rate and clipped gradients."""

from typing import Optional, Sequence, Tuple, Union

import tensorflow as tf


def linear_anneal(initial_value: Union[float, tf.Tensor],
                  frames: Union[int, tf.Tensor],
                  total_frames: int) -> tf.Tensor:
  """Anneals linearly from `initial_value` at frame 0 to 0 at `total_frames`.

  The learning rate's schedule in the paper (table G.1); never below 0.

  Args:
    initial_value: value at frame 0, a number or float32 [].
    frames: int64 [] or a number, environment frames so far.
    total_frames: environment frames of the whole run, above 0.

  Raises:
    ValueError: `total_frames` is not above 0.
  """
  if total_frames <= 0:
    raise ValueError(f'total_frames must be above 0, but is {total_frames}')
  # In integers, because float32 cannot tell 200,000,000 from its neighbours.
  remaining = tf.maximum(total_frames - tf.cast(frames, tf.int64), 0)
  return initial_value * tf.cast(remaining / total_frames, tf.float32)


def clip_by_global_norm(
    gradients: Sequence[tf.Tensor],
    max_norm: Optional[Union[float, tf.Tensor]]
) -> Tuple[Sequence[tf.Tensor], tf.Tensor]:
  """Scales gradients down together so that their norm is at most `max_norm`.

  A gradient that is not finite makes the norm so. With a `max_norm`, ALL
  gradients are then NaN; without, they are returned as they came. A caller that
  wants to survive must look at the norm before it applies them.

  Args:
    gradients: tensors.
    max_norm: bound of the l2 norm of all gradients taken as one vector, above
      0, a number or float32 []. None: do not clip.

  Returns:
    The gradients, and their norm BEFORE clipping, float32 [].
  """
  norm = tf.linalg.global_norm(gradients)
  if max_norm is not None:
    gradients, _ = tf.clip_by_global_norm(gradients, max_norm, use_norm=norm)
  return gradients, norm
