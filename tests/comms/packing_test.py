"""Unrolls as columns come back unchanged; other shapes are refused."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.comms import packing
from tests.fixtures import unrolls

STAMP = packing.Stamp(np.int64(3), np.int64(-2**62 - 1), np.int64(5))


@pytest.fixture(name='packed')
def _packed():
  return packing.Packing(unrolls.spec())


def test_there_is_a_column_for_each_dtype(packed):
  dtypes = {field.dtype for field in tf.nest.flatten(unrolls.spec())}
  assert {column.dtype for column in packed.signature} == dtypes
  assert len(packed.signature) == len(dtypes)
  columns = packed.pack(unrolls.numbered(1), STAMP)
  for column, size, spec in zip(columns, packed.sizes, packed.signature):
    assert column.shape == (size,) and column.dtype == spec.dtype
    assert spec.name == f'{spec.dtype.name}_{size}'


def test_batches_come_back_whole(packed):
  originals = [unrolls.numbered(n) for n in range(3)]
  columns = [np.stack(c) for c in zip(*(
      packed.pack(original, STAMP) for original in originals))]
  batch = packed.unpack([tf.constant(column) for column in columns])
  for i, original in enumerate(originals):
    unrolls.assert_equal(
        tf.nest.map_structure(lambda t: t.numpy()[i], batch), original)  # noqa: B023


def test_fields_of_one_size_are_not_mixed_up_with_others(packed):
  unroll = unrolls.numbered(1)
  outputs = unroll.env_outputs
  turned = unroll._replace(env_outputs=outputs._replace(
      observation=np.swapaxes(outputs.observation, 1, 2)))
  with pytest.raises(ValueError, match='where it has float32'):
    packed.pack(turned, STAMP)


def test_stamp_comes_back_beside_the_unroll(packed):
  columns = packed.pack(unrolls.numbered(1), STAMP)
  assert packed.stamp([tf.constant(column) for column in columns]) == STAMP


def test_agents_come_back_beside_a_batch(packed):
  columns = [tf.stack(column) for column in zip(*(
      packed.pack(unrolls.numbered(1), STAMP._replace(agent=np.int64(agent)))
      for agent in (4, 0, 9)))]
  assert packed.agents(columns).numpy().tolist() == [4, 0, 9]


def test_allocated_unrolls_are_views_of_what_packing_would_make(packed):
  allocated = packed.allocate(3)
  original = unrolls.numbered(2)
  tf.nest.assert_same_structure(allocated.unroll, original)
  for array, value in zip(tf.nest.flatten(allocated.unroll),
                          tf.nest.flatten(original)):
    array[1] = value
  columns = [column[1] for column in allocated.columns]
  packed.put_stamp(columns, STAMP)
  for column, expected in zip(columns, packed.pack(original, STAMP)):
    assert column.dtype == expected.dtype
    np.testing.assert_array_equal(column, expected)
  for column in allocated.columns:  # Its neighbours are left alone.
    assert not column[[0, 2]].any()


def test_stamp_is_put_on_columns_of_the_right_sizes_alone(packed):
  columns = [column[0] for column in packed.allocate(1).columns]
  with pytest.raises(ValueError, match='must have columns of'):
    packed.put_stamp([column[1:] for column in columns], STAMP)
