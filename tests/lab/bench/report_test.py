"""Tables of benchmarks show the numbers they are given."""


import pytest

from impala_tf import config as config_lib
from impala_tf.runtime import sizing
from lab.bench import measure
from lab.bench import report
from tests.fixtures import measurements


@pytest.mark.parametrize('path', ['nowhere/result.json', '.'])
def test_file_that_cannot_be_written_is_refused(tmp_path, path):
  with pytest.raises(config_lib.UserError, match='cannot be written'):
    report.check_writable(str(tmp_path / path))


def test_tables_show_the_numbers(capsys):
  result = measure.summarise(
      sizing.fit(config_lib.Config(), cores=4), 4, measurements.WINDOWS,
      measurements.COSTS, [1e5, 2e5])
  result = {'setting': 'a setting', 'peak_pss_mib': 1234.,
            'start_to_first_update_secs': 5.,
            'speedups': {'parameters': 'by pigeon'}, **result}
  report.show(result)
  shown = capsys.readouterr().out
  for words in ('a setting', '0.9000', '0.833', '16,000', '13,333', '1,234',
                'data plane alone', '4 × 20', 'by pigeon'):
    assert words in shown


def test_peer_is_shown_beside_this_library(capsys):
  report.show_peer({
      'peer': dict(frames_per_sec=4000., cpu_secs_per_1000_frames=0.4),
      'impala_tf': dict(frames_per_sec=12_000., cpu_secs_per_1000_frames=0.1)})
  shown = capsys.readouterr().out
  for words in ('peer', '12,000', '3.00', '0.100', '0.25'):
    assert words in shown
