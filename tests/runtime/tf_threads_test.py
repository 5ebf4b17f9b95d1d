"""TensorFlow's threads, as few as are asked for."""

import pytest
import tensorflow as tf

from impala_tf.runtime import tf_threads


@pytest.mark.parametrize('asked, intra_op, inter_op', [
    (1, 1, 1), (2, 1, 2), (3, 3, 2), (8, 8, 2)])
def test_two_threads_run_an_operation_each_and_more_share_them(
    monkeypatch, asked, intra_op, inter_op):
  found = {}
  for name in ('intra', 'inter'):
    # The real ones cannot be called once anything was computed.
    monkeypatch.setattr(
        tf.config.threading, f'set_{name}_op_parallelism_threads',
        lambda number, name=name: found.update({name: number}))
  tf_threads.set_threads(asked)
  assert found == {'intra': intra_op, 'inter': inter_op}
