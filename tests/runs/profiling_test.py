"""Files of a run with --profile."""

from impala_tf.runs import profiling


def test_hop_times_are_means_over_unrolls(tmp_path):
  writer = profiling.HopTimesWriter(str(tmp_path), 'actor_7')
  writer.add_unroll({'environment': 1.})
  assert not profiling.read_hop_times(str(tmp_path))  # Too soon to write.
  writer._last_write -= 100.
  writer.add_unroll({'environment': 4., 'inference': 1.})
  assert profiling.read_hop_times(str(tmp_path)) == [
      {'environment': 2., 'inference': 0.5}]


def test_each_actor_has_its_own(tmp_path):
  for i in range(2):
    writer = profiling.HopTimesWriter(str(tmp_path), f'actor_{i}')
    writer._last_write -= 100.
    writer.add_unroll({'environment': float(i)})
  assert profiling.read_hop_times(str(tmp_path)) == [
      {'environment': 0.}, {'environment': 1.}]
