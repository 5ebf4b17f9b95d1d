"""Tables of benchmarks; `measure_test` and `table_1_test` have others."""

import pytest

from impala_tf import config as config_lib
from lab.bench import report


@pytest.mark.parametrize('path', ['nowhere/result.json', '.'])
def test_file_that_cannot_be_written_is_refused(tmp_path, path):
  with pytest.raises(config_lib.UserError, match='cannot be written'):
    report.check_writable(str(tmp_path / path))


def test_peer_is_shown_beside_this_library(capsys):
  report.show_peer({
      'peer': dict(frames_per_sec=4000., cpu_secs_per_1000_frames=0.4),
      'impala_tf': dict(frames_per_sec=12_000., cpu_secs_per_1000_frames=0.1)})
  shown = capsys.readouterr().out
  for words in ('peer', '12,000', '3.00', '0.100', '0.25'):
    assert words in shown
