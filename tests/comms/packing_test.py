"""Unrolls as columns, one for each dtype, come back unchanged."""

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
  columns = unrolls.columns(unrolls.numbered(1), STAMP)
  for column, size, spec in zip(columns, packed.sizes, packed.signature):
    assert column.shape == (size,) and column.dtype == spec.dtype
    assert spec.name == f'{spec.dtype.name}_{size}'


def test_allocated_unrolls_are_views_of_their_columns(packed):
  allocated = packed.allocate(3)
  original = unrolls.numbered(2)
  tf.nest.assert_same_structure(allocated.unroll, original)
  for array, value in zip(tf.nest.flatten(allocated.unroll),
                          tf.nest.flatten(original)):
    array[1] = value
  columns = [column[1] for column in allocated.columns]
  packed.put_stamp(columns, STAMP)
  assert packed.stamp([tf.constant(column) for column in columns]) == STAMP
  unrolls.assert_equal(tf.nest.map_structure(
      lambda t: t.numpy()[0], packed.unpack(
          [tf.constant(column[np.newaxis]) for column in columns])), original)
  for column in allocated.columns:  # Its neighbours are left alone.
    assert not column[[0, 2]].any()
