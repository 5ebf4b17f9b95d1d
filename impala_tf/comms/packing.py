"""Packing of an unroll's arrays into one vector for each dtype.

For Reverb a column costs as much as compressing all frames of an unroll: a
dozen columns would cost twice as much as three.
"""

from typing import Any, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from impala_tf import types


class Stamp(NamedTuple):
  """Sender, config fingerprint and agent of an unroll, for `unroll_filter`."""
  sender: Any  # int64 [], task of the actor that played the unroll.
  fingerprint: Any  # int64 [], see `config.data_fingerprint`.
  # int64 [], number of the agent among several that share a replay.
  agent: Any = np.int64(0)


class PackedUnroll(NamedTuple):
  """An unroll whose arrays are views of the columns to send."""
  columns: tuple[np.ndarray, ...]  # Each [N] of a dtype, with room for a stamp.
  unroll: types.Unroll  # Views of the columns.
  row: int = 0  # Number of its environment among its actor's.


NO_STAMP = Stamp(np.int64(0), np.int64(0))
_STAMP_SPEC = Stamp(*[tf.TensorSpec((), tf.int64) for _ in Stamp._fields])


class Packing:
  """The layout of unrolls in columns, which actors fill and learners unpack.

  Attributes:
    signature: a `tf.TensorSpec` for each column. Sizes are only in names, as in
      float32_336: an actor of an earlier run with another size would end the
      learner's reading if shapes had them.
  """

  def __init__(self, spec: types.Unroll):
    """Assigns the fields of a spec (`types.unroll_spec`) to columns."""
    self._spec = spec
    # The fields of the stamp are the last ones of their column.
    self._fields = tf.nest.flatten((spec, _STAMP_SPEC))
    self._columns: dict[tf.DType, list[int]] = {}
    for i, field in enumerate(self._fields):
      self._columns.setdefault(field.dtype, []).append(i)
    self._stamped = list(self._columns).index(tf.int64)
    self.sizes = tuple(  # N of each column.
        sum(self._sizes(members)) for members in self._columns.values())
    self.signature: tuple[tf.TensorSpec, ...] = tuple(
        tf.TensorSpec([None], dtype, f'{dtype.name}_{size}')
        for dtype, size in zip(self._columns, self.sizes))

  def _sizes(self, members: Sequence[int]) -> list[int]:
    return [self._fields[i].shape.num_elements() for i in members]

  def allocate(self, num_unrolls: int) -> PackedUnroll:
    """Allocates zeros: columns [E, N], and an unroll of views, leading [E]."""
    columns = tuple(
        np.zeros([num_unrolls, size], dtype.as_numpy_dtype)
        for dtype, size in zip(self._columns, self.sizes))
    fields: list[Any] = [None] * len(self._fields)
    for column, members in zip(columns, self._columns.values()):
      ends = np.cumsum(self._sizes(members))[:-1]
      for i, vectors in zip(members, np.split(column, ends, axis=1)):
        # No copy: it splits the last dimension.
        fields[i] = vectors.reshape(num_unrolls, *self._fields[i].shape)
    return PackedUnroll(columns, tf.nest.pack_sequence_as(
        self._spec, fields[:-len(_STAMP_SPEC)]))

  def put_stamp(self, columns: Sequence[np.ndarray], stamp: Stamp) -> None:
    """Writes a stamp of NumPy scalars into the columns [N] of one unroll.

    Raises ValueError if the columns have other sizes.
    """
    if tuple(map(len, columns)) != self.sizes:
      raise ValueError(f'an unroll must have columns of {self.sizes} numbers, '
                       f'but has {tuple(map(len, columns))}')
    columns[self._stamped][-len(stamp):] = stamp

  def unpack(self, columns: Sequence[tf.Tensor]) -> types.Unroll:
    """Unpacks columns [B, N] as unrolls with leading [B], without stamps."""
    fields = [None] * len(self._fields)
    for column, members in zip(columns, self._columns.values()):
      vectors = tf.split(column, self._sizes(members), axis=1)
      for i, vector in zip(members, vectors):
        fields[i] = tf.reshape(vector, (-1, *self._fields[i].shape))
    return tf.nest.pack_sequence_as(self._spec, fields[:-len(_STAMP_SPEC)])

  def agents(self, columns: Sequence[tf.Tensor]) -> tf.Tensor:
    """Unpacks the number of the agent that played each unroll, int64 [B]."""
    place = Stamp._fields.index('agent') - len(Stamp._fields)
    return columns[self._stamped][:, place]

  def stamp(self, columns: Sequence[tf.Tensor]) -> Stamp:
    """Unpacks the stamp, as tensors, from the columns [N] of one unroll."""
    column = columns[self._stamped]
    size = len(_STAMP_SPEC)
    # A column of another program may be shorter than a stamp.
    padded = tf.concat([tf.fill([size], tf.int64.min), column], axis=0)
    return Stamp(*(padded[i - size] for i in range(size)))
