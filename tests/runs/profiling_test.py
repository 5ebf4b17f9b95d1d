"""Files of a run with --profile."""

from impala_tf.runs import profiling


def test_hop_times_are_means_over_unrolls_for_each_actor(tmp_path):
  for i, secs in enumerate((4., 6.)):
    writer = profiling.HopTimesWriter(str(tmp_path), f'actor_{i}')
    writer.add_unroll({'environment': 1.})
    # Too soon to write.
    assert len(profiling.read_hop_times(str(tmp_path))) == i
    writer._last_write -= 100.
    writer.add_unroll({'environment': secs, 'inference': 1.})
  assert profiling.read_hop_times(str(tmp_path)) == [
      {'environment': 2., 'inference': 0.5},
      {'environment': 3., 'inference': 0.5}]
