"""Packing of an unroll's arrays into one vector for each dtype.

Reverb spends as much on each column as on compressing all frames of an unroll,
so a dozen columns would cost twice as much as three.
"""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow as tf

from impala_tf import types


class Stamp(NamedTuple):
  """Sender and config of an unroll, by which it can be refused.

  Attributes:
    sender: int64 [], task of the actor that played the unroll.
    fingerprint: int64 [], fingerprint of its config, see
      `config_fingerprint.of_unrolls`.
    agent: int64 [], number of the agent among those that share a replay.
  """
  sender: Any
  fingerprint: Any
  agent: Any = np.int64(0)


class PackedUnroll(NamedTuple):
  """An unroll whose arrays are views of the columns that are sent.

  Attributes:
    columns: arrays [N], one for each dtype, with room for a stamp.
    unroll: `types.Unroll` of views of them.
    row: number of the environment that it is of, among its actor's.
  """
  columns: Tuple[np.ndarray, ...]
  unroll: types.Unroll
  row: int = 0


_STAMP_SPEC = Stamp(*[tf.TensorSpec((), tf.int64) for _ in Stamp._fields])


class Packing:
  """The layout of unrolls in columns: actors pack unrolls, the learner unpacks.

  Attributes:
    signature: a `tf.TensorSpec` for each column. Sizes are in names alone, as
      in float32_336: with sizes in shapes, Reverb would end the learner's
      reading, and so the run, where an actor of the last run that still
      reconnects sends a column of another size.
    sizes: N of each column.
  """

  def __init__(self, spec: types.Unroll):
    """Assigns the fields of an unroll to columns.

    Args:
      spec: spec of one unroll, see `types.unroll_spec`.
    """
    self._spec = spec
    # The fields of the stamp are the last ones of their column.
    self._fields = tf.nest.flatten((spec, _STAMP_SPEC))
    self._columns: Dict[tf.DType, List[int]] = {}
    for i, field in enumerate(self._fields):
      self._columns.setdefault(field.dtype, []).append(i)
    self._stamped = list(self._columns).index(tf.int64)
    self.sizes = tuple(
        sum(self._sizes(members)) for members in self._columns.values())
    self.signature: Tuple[tf.TensorSpec, ...] = tuple(
        tf.TensorSpec([None], dtype, f'{dtype.name}_{size}')
        for dtype, size in zip(self._columns, self.sizes))

  def _sizes(self, members: Sequence[int]) -> List[int]:
    return [self._fields[i].shape.num_elements() for i in members]

  def allocate(self, num_unrolls: int) -> PackedUnroll:
    """Allocates memory for unrolls, which then need no packing.

    Args:
      num_unrolls: E.

    Returns:
      Zeros: columns [E, N], and an unroll of views of them with leading [E].
    """
    columns = tuple(
        np.zeros([num_unrolls, size], dtype.as_numpy_dtype)
        for dtype, size in zip(self._columns, self.sizes))
    fields = [None] * len(self._fields)
    for column, members in zip(columns, self._columns.values()):
      ends = np.cumsum(self._sizes(members))[:-1]
      for i, vectors in zip(members, np.split(column, ends, axis=1)):
        # No copy: it splits the last dimension.
        fields[i] = vectors.reshape(num_unrolls, *self._fields[i].shape)
    return PackedUnroll(columns, tf.nest.pack_sequence_as(
        self._spec, fields[:-len(_STAMP_SPEC)]))

  def put_stamp(self, columns: Sequence[np.ndarray], stamp: Stamp) -> None:
    """Writes a stamp into the columns of one unroll.

    Args:
      columns: an array [N] for each column.
      stamp: NumPy scalars.

    Raises:
      ValueError: where the columns are of other sizes.
    """
    if tuple(map(len, columns)) != self.sizes:
      raise ValueError(f'an unroll must have columns of {self.sizes} numbers, '
                       f'but has {tuple(map(len, columns))}')
    columns[self._stamped][-len(stamp):] = stamp

  def pack(self, unroll: types.Unroll, stamp: Stamp) -> Tuple[np.ndarray, ...]:
    """Copies one unroll's arrays into columns.

    Args:
      unroll: NumPy arrays without a batch dimension.
      stamp: NumPy scalars.

    Returns:
      An array [N] for each column; see `sizes` and `signature`.

    Raises:
      ValueError: where structure, shapes or dtypes differ from the spec.
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
    """Unpacks a batch of unrolls, without their stamps.

    Args:
      columns: a tensor [B, N] for each column.

    Returns:
      An `Unroll` of tensors with leading [B].
    """
    fields = [None] * len(self._fields)
    for column, members in zip(columns, self._columns.values()):
      vectors = tf.split(column, self._sizes(members), axis=1)
      for i, vector in zip(members, vectors):
        fields[i] = tf.reshape(vector, (-1, *self._fields[i].shape))
    return tf.nest.pack_sequence_as(self._spec, fields[:-len(_STAMP_SPEC)])

  def agents(self, columns: Sequence[tf.Tensor]) -> tf.Tensor:
    """Unpacks the numbers of the agents that played a batch of unrolls.

    Args:
      columns: a tensor [B, N] for each column.

    Returns:
      int64 [B].
    """
    place = Stamp._fields.index('agent') - len(Stamp._fields)
    return columns[self._stamped][:, place]

  def stamp(self, columns: Sequence[tf.Tensor]) -> Stamp:
    """Unpacks the stamp of one unroll.

    Args:
      columns: a tensor [N] for each column.

    Returns:
      A `Stamp` of tensors.
    """
    column = columns[self._stamped]
    size = len(_STAMP_SPEC)
    # A column of another program may be shorter than a stamp.
    padded = tf.concat([tf.fill([size], tf.int64.min), column], axis=0)
    return Stamp(*(padded[i - size] for i in range(size)))
