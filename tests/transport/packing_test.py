"""Unrolls as columns come back unchanged; other shapes are refused."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.transport import packing
from tests.fixtures import unrolls

STAMP = packing.Stamp(np.int64(3), np.int64(-2**62 - 1))


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
  stamp = packed.stamp([tf.constant(column) for column in columns])
  assert stamp.sender == STAMP.sender
  assert stamp.fingerprint == STAMP.fingerprint
