"""How an unroll travels: its arrays end to end, one vector for each dtype.

Reverb spends on each column about as much as on compressing all frames of an
unroll, so a dozen columns would cost twice as much as three.
"""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow as tf

from impala_tf import types


class Stamp(NamedTuple):
  """What travels beside an unroll, so that it can be refused.

  Attributes:
    sender: int64 [], the task of the actor that played it.
    fingerprint: int64 [], see `config_fingerprint.of_unrolls`.
  """
  sender: Any
  fingerprint: Any


_STAMP_SPEC = Stamp(*[tf.TensorSpec((), tf.int64) for _ in Stamp._fields])


class Packing:
  """Unrolls to columns, in the actor, and batches of them back.

  Attributes:
    signature: of the columns, a `tf.TensorSpec` each. Their sizes are in their
      names alone, float32_336 say. With sizes in their shapes, Reverb would end
      the learner's reading, and so the run, where an actor of the last run that
      still reconnects sends another size.
    sizes: N of each column.
  """

  def __init__(self, spec: types.Unroll):
    """Lays the fields out.

    Args:
      spec: of one unroll, see `types.unroll_spec`.
    """
    self._spec = spec
    # The stamp's come last, and so they do in their column.
    self._fields = tf.nest.flatten((spec, _STAMP_SPEC))
    self._columns: Dict[tf.DType, List[int]] = {}
    for i, field in enumerate(self._fields):
      self._columns.setdefault(field.dtype, []).append(i)
    self.sizes = tuple(
        sum(self._sizes(members)) for members in self._columns.values())
    self.signature: Tuple[tf.TensorSpec, ...] = tuple(
        tf.TensorSpec([None], dtype, f'{dtype.name}_{size}')
        for dtype, size in zip(self._columns, self.sizes))

  def _sizes(self, members: Sequence[int]) -> List[int]:
    return [self._fields[i].shape.num_elements() for i in members]

  def pack(self, unroll: types.Unroll, stamp: Stamp) -> Tuple[np.ndarray, ...]:
    """Copies one unroll's arrays into columns.

    Args:
      unroll: NumPy arrays without a batch dimension.
      stamp: NumPy scalars.

    Returns:
      Arrays [N], as `sizes` and `signature` have them.

    Raises:
      ValueError: where structure, shapes or dtypes are not those of the spec.
    """
    arrays = tf.nest.flatten((unroll, stamp))
    if len(arrays) != len(self._fields):
      raise ValueError(
          f'an unroll must have {len(self._fields) - len(stamp)} arrays, but '
          f'has {len(arrays) - len(stamp)}')
    for array, field in zip(arrays, self._fields):
      if array.shape != field.shape or array.dtype != field.dtype:
        raise ValueError(f'an unroll must have {field} where it has '
                         f'{array.dtype} {array.shape}')
    return tuple(np.concatenate([arrays[i] for i in members], axis=None)
                 for members in self._columns.values())

  def unpack(self, columns: Sequence[tf.Tensor]) -> types.Unroll:
    """Undoes `pack` for a batch, and leaves the stamps away.

    Args:
      columns: tensors [B, N].

    Returns:
      An `Unroll` of tensors with leading [B].
    """
    fields = [None] * len(self._fields)
    for column, members in zip(columns, self._columns.values()):
      parts = tf.split(column, self._sizes(members), axis=1)
      for i, part in zip(members, parts):
        fields[i] = tf.reshape(part, (-1, *self._fields[i].shape))
    return tf.nest.pack_sequence_as(self._spec, fields[:-len(_STAMP_SPEC)])

  def stamp(self, columns: Sequence[tf.Tensor]) -> Stamp:
    """The stamp of one unroll.

    Args:
      columns: tensors [N].

    Returns:
      Tensors.
    """
    column = columns[list(self._columns).index(tf.int64)]
    size = len(_STAMP_SPEC)
    # Of what somebody else made there may be less than a stamp.
    padded = tf.concat([tf.fill([size], tf.int64.min), column], axis=0)
    return Stamp(*(padded[i - size] for i in range(size)))
