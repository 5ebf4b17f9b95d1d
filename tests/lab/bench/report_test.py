"""Tables of benchmarks; `measure_test` and `table_1_test` have others."""

from lab.bench import report


def test_peer_is_shown_beside_this_library(capsys):
  report.show_peer({
      'peer': dict(frames_per_sec=4000., cpu_secs_per_1000_frames=0.4),
      'impala_tf': dict(frames_per_sec=12_000., cpu_secs_per_1000_frames=0.1)})
  shown = capsys.readouterr().out
  for words in ('peer', '12,000', '3.00', '0.100', '0.25'):
    assert words in shown
